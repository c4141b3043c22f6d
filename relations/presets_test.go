package relations

import (
	"math"
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

// play runs a script on the abstract machine: "+tag" arrives, "-tag" releases,
// "!" confirms every waiting entry that can be, in the order of arrival. It
// returns the held and the waiting entries after it, in the order of tags or of
// arrival.
func play(t *testing.T, rules Rules, script string) (after string) {
	t.Helper()
	tab, tags := tableOf(rules)
	var s state
	refusals := 0
	for _, word := range strings.Fields(script) {
		x := -1
		for i, tag := range tags {
			if word[1:] == tag {
				x = i
			}
		}
		switch word[0] {
		case '+':
			var v verdict
			if s, v = tab.arrive(s, x); v == refused {
				refusals++
			}
		case '-':
			if s.held[x] == 0 {
				t.Fatalf("%s: no %s is held", script, tags[x])
			}
			s.held[x]--
		case '!':
			for i := 0; i < len(s.waiting); {
				if tab.blocked(s, i) {
					i++
					continue
				}
				s.held[s.waiting[i]]++
				s = s.without(i)
			}
		}
	}
	var words []string
	for x, tag := range tags {
		for range s.held[x] {
			words = append(words, tag)
		}
	}
	words = append(words, "|")
	for _, x := range []byte(s.waiting) {
		words = append(words, tags[x])
	}
	return strings.TrimSpace(strings.Join(words, " ") + strings.Repeat(" refused", refusals))
}

func TestPresetsBehaveAsTheirCommentsSay(t *testing.T) {
	for _, test := range []struct {
		name   string
		rules  Rules
		script string
		want   string // held | waiting, and refusals
	}{
		{"one at a time", Exclusive(), "+write +write", "write | refused"},
		{"readers hold together", ReadPreferring(), "+read +read", "read read |"},
		{"a reader refuses a writer", ReadPreferring(), "+read +write", "read | refused"},
		{"a writer refuses everybody", ReadPreferring(), "+write +read +write", "write | refused refused"},
		{"a writer waits for readers and keeps new ones out", WritePreferring(), "+read +write +read", "read | write refused"},
		{"the writer comes in when they have left", WritePreferring(), "+read +read +write -read ! -read !", "write |"},
		{"a second writer is refused", WritePreferring(), "+read +write +write", "read | write refused"},
		{"a reader after a waiting writer waits too", Fair(), "+read +write +read !", "read | write read"},
		{"readers side by side in the queue hold together", Fair(), "+write +read +read +write +read -write !", "read read | write read"},
		{"writers are served in the order of arrival", Fair(), "+write +write +read -write !", "write | read"},
		{"n at a time, the others wait", Semaphore(2), "+slot +slot +slot +slot", "slot slot | slot slot"},
		{"a slot that becomes free goes to the next", Semaphore(2), "+slot +slot +slot +slot -slot !", "slot slot | slot"},
		{"a later arrival can't take it", Semaphore(2), "+slot +slot +slot -slot +slot !", "slot slot | slot"},
		{"a semaphore of one", Semaphore(1), "+slot +slot -slot !", "slot |"},
	} {
		if got := play(t, test.rules, test.script); got != test.want {
			t.Errorf("%s: %s\ngives %q, want %q", test.name, test.script, got, test.want)
		}
	}
}

func TestMultiGranularityIsGraysMatrix(t *testing.T) {
	const matrix = `
		      IS  IX  S   SIX X
		IS    yes yes yes yes -
		IX    yes yes -   -   -
		S     yes -   yes -   -
		SIX   yes -   -   -   -
		X     -   -   -   -   -`
	rows := strings.Split(strings.TrimSpace(matrix), "\n")
	columns := strings.Fields(rows[0])
	for _, row := range rows[1:] {
		cells := strings.Fields(row)
		for i, y := range columns {
			x, together := cells[0], cells[i+1] == "yes"
			got := play(t, MultiGranularity(), "+"+y+" +"+x)
			if admitted := !strings.Contains(got, "refused"); admitted != together || strings.Contains(got, "| "+x) {
				t.Errorf("%s arrives, %s held: %s", x, y, got)
			}
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
