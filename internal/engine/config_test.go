package engine

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
)

func TestConfigDurations(t *testing.T) {
	t.Parallel()
	tags := map[string]time.Duration{"read": time.Minute}
	for name, c := range map[string]struct {
		cfg                  Config
		lease, wait, attempt time.Duration // of "write"
		read                 [3]time.Duration
	}{
		"defaults of a long TTL": {
			Config{Terms: Terms{TTL: time.Hour}, TagTTL: tags}, time.Hour, DefaultWaitTTL, DefaultAttemptTimeout,
			[3]time.Duration{time.Minute, DefaultWaitTTL, DefaultAttemptTimeout},
		},
		"defaults of a short TTL": {
			Config{Terms: Terms{TTL: 3 * second}, TagTTL: tags}, 3 * second, 3 * second, second,
			[3]time.Duration{time.Minute, DefaultWaitTTL, DefaultAttemptTimeout},
		},
		"set": {
			Config{Terms: Terms{TTL: time.Hour}, TagTTL: tags, WaitTTL: 7 * second, AttemptTimeout: 20 * second}, time.Hour, 7 * second, 20 * second,
			[3]time.Duration{time.Minute, 7 * second, 20 * second},
		},
	} {
		for tag, want := range map[string][3]time.Duration{"write": {c.lease, c.wait, c.attempt}, "read": c.read} {
			got := [3]time.Duration{c.cfg.Lease(tag), c.cfg.Wait(tag), c.cfg.Attempt(c.cfg.Lease(tag)).Timeout}
			if got != want {
				t.Errorf("%s, %s: lease, wait and attempt are %v, want %v", name, tag, got, want)
			}
		}
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	var c Config
	before, wall := c.Clocks(), time.Now()
	after := c.Clocks()
	if after.Mono < before.Mono || before.Mono < 0 {
		t.Errorf("the monotonic clock went from %v to %v", before.Mono, after.Mono)
	}
	if d := wall.Sub(before.Wall).Abs(); d > time.Minute {
		t.Errorf("the wall clock is off by %v", d)
	}
	if before.Wall != before.Wall.Round(0) {
		t.Error("the wall clock's reading has a monotonic part: it would not notice that the clock was set")
	}
	turned := Reading{Mono: 5, Wall: epoch}
	c.Clock = func() Reading { return turned }
	if got := c.Clocks(); got != turned {
		t.Errorf("%v", got)
	}
}

// The time for which the machine was suspended counts as any other, once it is seen, and
// whatever stops the process between two clocks does not.
func TestClocksCountSuspensions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Hour // it was suspended before
		c := Config{suspensions: &suspended{ahead: func() time.Duration { return ahead }}, start: time.Now()}
		begun := c.Clocks().Mono
		for _, step := range []struct{ now, passed time.Duration }{
			{time.Hour + 9*time.Millisecond, 0},
			{time.Hour + 18*time.Millisecond, 18 * time.Millisecond},
			{time.Hour - time.Second, 18 * time.Millisecond}, // it was stopped between the two
			{time.Hour + 30*time.Second, 30 * time.Second},
			{time.Hour, 30 * time.Second},
		} {
			ahead = step.now
			if got := c.Clocks().Mono - begun; got != step.passed {
				t.Errorf("the boot clock is %v ahead, and %v have passed; want %v", step.now, got, step.passed)
			}
		}
		time.Sleep(time.Second) //nolint:forbidigo // it is virtual time
		if got := c.Clocks().Mono - begun; got != 31*time.Second {
			t.Errorf("%v have passed", got)
		}
	})
}

// This machine's clock is read: it goes on beside the monotonic one.
func TestBootAhead(t *testing.T) {
	t.Parallel()
	first := bootAhead()
	if d := bootAhead() - first; d.Abs() > time.Minute || first < -time.Minute {
		t.Errorf("it is ahead by %v, and then by %v more", first, d)
	}
	if runtime.GOOS == "linux" && first == 0 {
		t.Error("it can't be read")
	}
}

func TestRulesAreTheEnginesOwn(t *testing.T) {
	t.Parallel()
	rules := relations.Fair()
	e := offline(t, rules)
	delete(rules["write"], "read")
	if diff := cmp.Diff(relations.Fair(), e.Rules()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
