package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A run gives up when its --wait or --timeout is over: not earlier because one answer
// was late, and not later if there is none.
func TestRunGivesUp(t *testing.T) {
	const never = -1
	for name, c := range map[string]struct {
		late         int // answers
		cut, held    bool
		wait         time.Duration
		first, until time.Duration // until: until it gives up; 0: it has the lock
	}{
		"one late":                    {late: 1, wait: never},
		"one late, --wait":            {late: 1, wait: 6 * time.Second},
		"one late, --timeout":         {late: 1, wait: never, first: 8 * time.Second},
		"one late, held":              {late: 1, held: true, wait: 20 * time.Second, until: 20 * time.Second},
		"one late, a try":             {late: 1, until: engine.DefaultTTL / 3},
		"held, --timeout":             {held: true, wait: time.Minute, first: 8 * time.Second, until: time.Minute},
		"all late":                    {late: 100, wait: never, until: engine.DefaultRetryLimit},
		"all late, --timeout":         {late: 100, wait: never, first: time.Second, until: time.Second},
		"no server":                   {cut: true, wait: never, until: engine.DefaultRetryLimit},
		"no server, --wait":           {cut: true, wait: 6 * time.Second, until: 6 * time.Second},
		"no server, a long --wait":    {cut: true, wait: time.Hour, until: engine.DefaultRetryLimit},
		"no server, --timeout":        {cut: true, wait: never, first: 8 * time.Second, until: 8 * time.Second},
		"no server, --timeout, a try": {cut: true, first: time.Second, until: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := locktest.New(t)
				coll := mem.Collection("locks", bson.M{"_id": "nightly"})
				if c.held {
					others, err := writelock.New(coll)
					must(t, err)
					must(t, errOf(others.TryAcquire(t.Context(), doclock.ID("nightly"), doclock.TTL(time.Hour), doclock.Owner("web-3"))))
				}
				mem.Delay(c.late, time.Hour)
				if c.cut {
					mem.Cut(coll.Database().Client())
				}
				said, err := os.Create(filepath.Join(t.TempDir(), "said"))
				must(t, err)
				run := cli{err: said, field: "lock"}
				h := held{ttl: engine.DefaultTTL, wait: c.wait, first: cmp.Or(c.first, engine.DefaultRetryLimit), verbose: true}
				nightly, err := parseTarget("nightly")
				must(t, err)
				begun := time.Now()
				asking, answered := run.untilSilence(nightly, h)
				locks, err := run.locker(coll, relations.Exclusive(), nightly, h, "backup.sh", answered)
				must(t, err)
				lease, err := acquire(asking, locks, nightly, writelock.Tag, h, nil)
				answered()
				if took := time.Since(begun); (lease != nil) != (c.until == 0) || c.until > 0 && (took < c.until || took > c.until+time.Second) {
					t.Errorf("after %v it has a lease: %v; %v", took, lease != nil, err)
				}
				if lease != nil {
					must(t, lease.Release(t.Context()))
				}
				closed(locks)
				text, err := os.ReadFile(said.Name())
				if told := strings.Contains(string(text), `waiting: nightly is kept back by "web-3"`); told != c.held || err != nil {
					t.Errorf("it said %q, %v", text, err)
				}
				must(t, said.Close())
			})
		})
	}
}
