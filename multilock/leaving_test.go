package multilock_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
)

// Holders that leave at the same time, long before the end, have lost nothing:
// one of them releases the entry, and each release returns nil.
func TestRule21HoldersThatLeaveTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const sharers, rounds = 64, 60
	p := newPlace(t)
	locks := p.locker(p.coll, relations.WritePreferring(), doclock.ShareInProcess("read"))
	for name, release := range map[string]func(*doclock.Lease) error{
		"Release": func(l *doclock.Lease) error { return l.Release(context.Background()) },
		"UpdateAndRelease": func(l *doclock.Lease) error {
			return l.UpdateAndRelease(context.Background(), map[string]any{"$inc": map[string]int{"reads": 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			rounds, sharers := rounds, sharers
			if name == "UpdateAndRelease" { // commands, not only turns
				rounds, sharers = 10, 8
			}
			var failed atomic.Int64
			for range rounds {
				var leases []*doclock.Lease
				for range sharers {
					leases = append(leases, p.try(locks, "read"))
				}
				var all sync.WaitGroup
				start := make(chan struct{})
				for _, l := range leases {
					all.Go(func() {
						<-start
						if err := release(l); err != nil {
							failed.Add(1)
							t.Log(err)
						}
					})
				}
				close(start)
				all.Wait()
			}
			if n := failed.Load(); n > 0 {
				t.Errorf("%d of %d releases of an entry that was not lost returned an error", n, rounds*sharers)
			}
		})
	}
	p.wantEntries()
}
