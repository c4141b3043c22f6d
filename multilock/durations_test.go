package multilock_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"pgregory.net/rapid"
)

// anyDuration draws from the whole range. It often draws values near the ends of
// the range and near the options' bounds.
func anyDuration() *rapid.Generator[time.Duration] {
	near := func(d time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.Int64Range(-2, 2), func(n int64) time.Duration { return d + time.Duration(n) })
	}
	return rapid.OneOf(
		rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }),
		near(0), near(doclock.MinTTL), near(doclock.MaxTTL), near(doclock.MaxClockTolerance), near(doclock.MaxAttemptTimeout),
		rapid.Just(time.Duration(math.MaxInt64)), rapid.Just(time.Duration(math.MinInt64)),
		rapid.Map(rapid.Int64Range(int64(doclock.MinTTL), int64(doclock.MaxTTL)), func(n int64) time.Duration { return time.Duration(n) }),
	)
}

// New refuses a duration, or it keeps it: the entries live for as long as it
// says. The sum with the tolerance and the server's clock doesn't overflow, and
// the holder's validity ends before the entry expires.
func TestEveryDurationIsKeptOrRefused(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		p := newPlace(t)
		options := map[string]func(time.Duration) doclock.Option{
			"TTL":            func(d time.Duration) doclock.Option { return doclock.TTL(d) },
			"TagTTL":         func(d time.Duration) doclock.Option { return doclock.TagTTL("slot", d) },
			"WaitTTL":        doclock.WaitTTL,
			"Tolerance":      doclock.ClockTolerance,
			"AttemptTimeout": doclock.AttemptTimeout,
		}
		taken := 0
		rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
			cfg := map[string]time.Duration{"TTL": time.Minute, "WaitTTL": time.Minute, "Tolerance": time.Second}
			var opts []doclock.Option
			for name, d := range cfg {
				opts = append(opts, options[name](d))
			}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"TTL", "TagTTL", "WaitTTL", "Tolerance", "AttemptTimeout"}), 1, 2, rapid.ID).Draw(t, "options") {
				d := anyDuration().Draw(t, name)
				cfg[name] = d.Truncate(time.Millisecond)
				opts = append(opts, options[name](d))
			}
			locks, err := multilock.New(p.coll, relations.Semaphore(1), opts...)
			if errors.Is(err, doclock.ErrInvalidArgument) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			taken++
			ttl := cfg["TTL"]
			if d, differs := cfg["TagTTL"]; differs {
				ttl = d
			}
			p.erase("slot")
			lease, err := locks.TryAcquire(p.bounded(), flowers, "slot")
			if err != nil {
				t.Fatal(err)
			}
			ticket, err := locks.Enqueue(p.bounded(), flowers, "slot")
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range p.entries("slot") {
				want := []time.Duration{ttl, cfg["WaitTTL"]}[i] + cfg["Tolerance"]
				if got := e.Expires.Sub(e.Since); got != want {
					t.Errorf("entry %d lives for %v, want %v", i, got, want)
				}
			}
			if left := lease.Remaining(); left <= 0 || left > ttl {
				t.Errorf("the holder has %v of %v", left, ttl)
			}
			if err := ticket.Cancel(p.bounded()); err != nil {
				t.Error(err)
			}
			if err := lease.Release(p.bounded()); err != nil {
				t.Error(err)
			}
		})
		if taken == 0 {
			t.Error("no duration was taken")
		}
	})
}
