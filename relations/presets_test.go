package relations

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func presets() map[string]Rules {
	return map[string]Rules{
		"Exclusive":        Exclusive(),
		"ReadPreferring":   ReadPreferring(),
		"WritePreferring":  WritePreferring(),
		"Fair":             Fair(),
		"Semaphore(1)":     Semaphore(1),
		"Semaphore(3)":     Semaphore(3),
		"MultiGranularity": MultiGranularity(),
	}
}

func TestPresetsAreValidAndSymmetric(t *testing.T) {
	for name, rules := range presets() {
		if err := rules.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if found := rules.Asymmetries(); found != nil {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestPresetsStarveWhomTheirCommentsSay(t *testing.T) {
	refusals := map[string][]string{ // "refused tag by other tag"; no waiting entry is overtaken
		"Exclusive":       {"write by write"},
		"ReadPreferring":  {"read by write", "write by read", "write by write"},
		"WritePreferring": {"read by write", "write by write"},
		"Fair":            nil,
		"Semaphore(1)":    nil,
		"Semaphore(3)":    nil,
		"MultiGranularity": {
			"IS by X",
			"IX by S", "IX by SIX", "IX by X",
			"S by IX", "S by SIX", "S by X",
			"SIX by IX", "SIX by S", "SIX by SIX", "SIX by X",
			"X by IS", "X by IX", "X by S", "X by SIX", "X by X",
		},
	}
	for name, rules := range presets() {
		var got []string
		for _, s := range rules.Starvations() {
			if s.Waiting {
				t.Errorf("%s: %v", name, s)
			}
			got = append(got, s.Tag+" by "+s.By)
		}
		if diff := cmp.Diff(refusals[name], got); diff != "" {
			t.Errorf("%s: refused for ever (-want +got):\n%s", name, diff)
		}
	}
}

// play runs a script on the abstract machine: "+tag" arrives, "-tag" releases, "!"
// confirms every waiting entry that can be. It returns the tags of the held and of the
// waiting entries after it, and the refusals.
func play(rules Rules, script string) string {
	tab, tags := tableOf(rules)
	var s state
	var held, waiting []string
	refusals := ""
	for _, word := range strings.Fields(script) {
		x := slices.Index(tags, word[1:])
		switch word[0] {
		case '+':
			var v verdict
			if s, v = tab.arrive(s, x); v == refused {
				refusals += " refused"
			}
		case '-':
			s.held[x]--
		case '!':
			for i := 0; i < len(s.waiting); i++ {
				if !tab.blocked(s, i) {
					s.held[s.waiting[i]]++
					s = s.without(i)
					i--
				}
			}
		}
	}
	for x, tag := range tags {
		held = append(held, slices.Repeat([]string{tag}, int(s.held[x]))...)
	}
	for _, x := range []byte(s.waiting) {
		waiting = append(waiting, tags[x])
	}
	return strings.TrimSpace(strings.Join(held, " ")+" | "+strings.Join(waiting, " ")) + refusals
}

func TestPresetsBehaveAsTheirCommentsSay(t *testing.T) {
	for _, test := range []struct {
		name   string
		rules  Rules
		script string
		want   string // held | waiting, and refusals
	}{
		{"a reader refuses a writer", ReadPreferring(), "+read +write", "read | refused"},
		{"a writer refuses everybody", ReadPreferring(), "+write +read +write", "write | refused refused"},
		{"a writer waits for readers and keeps new ones out", WritePreferring(), "+read +write +read", "read | write refused"},
		{"a reader after a waiting writer waits too", Fair(), "+read +write +read !", "read | write read"},
		{"readers side by side in the queue hold together", Fair(), "+write +read +read +write +read -write !", "read read | write read"},
		{"writers are served in the order of arrival", Fair(), "+write +write +read -write !", "write | read"},
		{"n at a time, the others wait", Semaphore(2), "+slot +slot +slot +slot", "slot slot | slot slot"},
		{"a later arrival can't take it", Semaphore(2), "+slot +slot +slot -slot +slot !", "slot slot | slot"},
	} {
		if got := play(test.rules, test.script); got != test.want {
			t.Errorf("%s: %s\ngives %q, want %q", test.name, test.script, got, test.want)
		}
	}
}

func TestSemaphoreOfNoSizeIsInvalid(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		const want = `relations: invalid rules: tag "slot": assertive to "slot" with allow -1, which is negative ` +
			`(0 or more; n at a time is allow n-1, and n is at least 1)`
		if err := Semaphore(n).Validate(); err == nil || err.Error() != want {
			t.Errorf("Semaphore(%d): %v", n, err)
		}
	}
	if err := Semaphore(MaxAllow + 1).Validate(); err != nil {
		t.Error(err)
	}
	if err := Semaphore(MaxAllow + 2).Validate(); err == nil {
		t.Error("no error for a semaphore that is too large")
	}
}
