package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

func TestManyLeasesAreRenewedByFewCommands(t *testing.T) {
	const n = 250
	t.Run("taken at once", func(t *testing.T) {
		virtual(t, func(r *rig) {
			leases := r.many(n)
			r.keep(leases...)
			time.Sleep(ttl/3 + aLittle)
			r.wantSent("renew all", "renew all", "renew all")
			r.wantFresh(leases...)
		})
	})
	t.Run("taken one after the other", func(t *testing.T) {
		virtual(t, func(r *rig) {
			leases := make([]*Lease, n)
			for i := range leases {
				time.Sleep(ttl / 3 / n)
				leases[i] = r.take(100+i, "write")
				r.keep(leases[i])
			}
			time.Sleep(ttl / 3)
			r.server.forget()
			const periods = 3
			for range 12 * periods {
				time.Sleep(ttl / 3 / 12)
				r.wantFresh(leases...)
			}
			// Each is due once in a period, and at most three batches are not full.
			if sent := r.server.sent(); len(sent) > periods*(3+3) {
				r.Errorf("%d leases were kept by %d commands in %d periods: %v", n, len(sent), periods, sent)
			}
		})
	})
}

// Some servers lock the documents of a batch one after the other until the last
// statement is done: in one order, or two processes wait for each other.
func TestABatchIsInOrder(t *testing.T) {
	virtual(t, func(r *rig) {
		for _, id := range []int{102, 100, 101} {
			r.keep(r.take(id, "write"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(ttl/3 + aLittle)
		r.wantSent("renew all")
		if got, want := r.server.calls()[0].documents, []int{100, 101, 102}; !slices.Equal(got, want) {
			r.Errorf("the statements are in the order %v", got)
		}
	})
}

// A release waits for the batch, and is not lost by it.
func TestReleaseDuringABatch(t *testing.T) {
	virtual(t, func(r *rig) {
		leases := r.many(3)
		r.delay("renew all", time.Second)
		kept := r.keep(leases...)
		time.Sleep(ttl/3 + aLittle)
		begun := time.Now()
		if err := leases[1].Release(context.Background()); err != nil {
			r.Errorf("Release = %v", err)
		}
		if waited := time.Since(begun); waited < time.Second-2*aLittle {
			r.Errorf("the release waited for %v", waited)
		}
		r.wantSent("renew all", "release")
		if cause := context.Cause(kept[1]); !errors.Is(cause, doclock.ErrReleased) {
			r.Errorf("cause %v", cause)
		}
		r.wantFresh(leases[0], leases[2])
	})
}

// A lease that is being renewed by hand delays no others.
func TestABatchPassesOverWhatIsBusy(t *testing.T) {
	virtual(t, func(r *rig) {
		leases := r.many(3)
		r.delay("renew", time.Second)
		r.keep(leases...)
		time.Sleep(ttl/3 - aLittle)
		go func() { _ = leases[1].Renew(context.Background()) }()
		time.Sleep(2 * aLittle)
		r.wantSent("renew", "renew all")
	})
}

// loops counts the keepers' goroutines.
func loops() int {
	stacks := make([]byte, 1<<24)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*keeper).run(")
}

func TestOneLoopForAllThatAreKept(t *testing.T) {
	virtual(t, func(r *rig) {
		leases := r.many(20)
		for range 2 { // it can be taken up again
			ctx, cancel := context.WithCancel(context.Background())
			var keepers sync.WaitGroup
			for _, h := range leases {
				keepers.Go(func() { h.KeepAlive(ctx) })
			}
			keepers.Wait()
			synctest.Wait()
			if n := loops(); n != 1 {
				r.Errorf("%d loops", n)
			}
			cancel()
			synctest.Wait()
			if n := loops(); n != 0 {
				r.Errorf("%d loops without a lease", n)
			}
		}
	})
}

// block has the renewals of the first documents wait, and counts how many do.
func (s *server) block(documents int, ended <-chan struct{}) (waiting *atomic.Int32) {
	waiting = &atomic.Int32{}
	s.fault = func(ctx context.Context, c call) error {
		blocked := func(id int) bool { return id < 100+documents }
		if c.name == "read" || !slices.ContainsFunc(c.documents, blocked) {
			return nil
		}
		waiting.Add(1)
		defer waiting.Add(-1)
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return waiting
}

// Somebody blocks all writes to some documents. The renewals that wait for them
// delay no others: these are renewed before the first of the blocked is given up.
func TestBlockedDocumentsHoldUpNoOthers(t *testing.T) {
	for _, blocked := range []int{4, 16, 64} {
		t.Run(fmt.Sprint(blocked), func(t *testing.T) {
			virtual(t, func(r *rig) {
				leases := r.many(100)
				ended := make(chan struct{})
				r.server.block(blocked, ended)
				kept := r.keep(leases...)
				time.Sleep(ttl*2/3 - aLittle) // the batch has half of what is left
				r.wantSent("renew all")
				time.Sleep(ttl/6 + aLittle)
				r.wantFresh(leases[blocked:]...)
				if n := len(r.server.sent()); n > 2+len(leases) {
					r.Errorf("a batch, a read and %d leases by themselves took %d commands", len(leases), n)
				}
				close(ended)
				time.Sleep(aLittle)
				r.wantFresh(leases...)
				for i, k := range kept {
					if k.Err() != nil {
						r.Errorf("lease %d: %v", i, context.Cause(k))
					}
				}
			}, func(cfg *engine.Config) { cfg.AttemptTimeout = time.Minute })
		})
	}
}

// More documents are blocked than commands can be out: those in front leave time for the
// others.
func TestManyBlockedDocumentsHoldUpNoOthers(t *testing.T) {
	for _, blocked := range []int{100, 300} {
		t.Run(fmt.Sprint(blocked), func(t *testing.T) {
			virtual(t, func(r *rig) {
				leases := r.many(600)
				ended := make(chan struct{})
				r.server.block(blocked, ended)
				r.keep(leases...)
				time.Sleep(2 * ttl)
				for _, l := range leases[blocked:] {
					if l.Err() != nil {
						r.Error(l.Err())
					}
				}
				close(ended)
			})
		})
	}
}

// Leases that can't be renewed even alone are tried again after all the others,
// and leave them room.
func TestTheStuckLeaveRoom(t *testing.T) {
	const blocked = 30
	virtual(t, func(r *rig) {
		leases := r.many(blocked + 5)
		others := leases[blocked:]
		waiting := r.server.block(blocked, nil)
		r.keep(leases...)
		time.Sleep(ttl / 2) // each has been tried by itself
		most := int32(0)
		for n := 0; leases[0].Remaining() > aLittle; n++ {
			time.Sleep(10 * time.Millisecond)
			most = max(most, waiting.Load())
			if n > 50 {
				r.wantFresh(others...)
			}
		}
		if most == 0 || most > mostStuck {
			r.Errorf("up to %d renewals were out that can't be done, want at most %d", most, mostStuck)
		}
		for _, h := range others {
			if h.Err() != nil {
				r.Error(h.Err())
			}
		}
	}, func(cfg *engine.Config) { cfg.AttemptTimeout = 300 * time.Millisecond })
}

// untilLease is a caller's own context, which ends with a lease.
type untilLease struct {
	context.Context
	lease doclock.Lease
}

func (c untilLease) Done() <-chan struct{} { return c.lease.Done() }
func (c untilLease) Err() error            { return c.lease.Err() }

// The end of a lease calls no context of the caller's own type under its mutex.
func TestAContextOfTheCallersOwn(t *testing.T) {
	for name, under := range map[string]func(ctx context.Context, l *Lease, do func(context.Context)){
		"KeepAlive": func(ctx context.Context, l *Lease, do func(context.Context)) { do(l.KeepAlive(ctx)) },
		"WithTransaction": func(ctx context.Context, l *Lease, do func(context.Context)) {
			_ = (&transaction{parts: []*part{{Lease: l}}}).call(ctx, func(ctx context.Context) error { do(ctx); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, coll := connected(t)
			r := newRig(t, e, coll)
			l := r.take(1, "write")
			released, ended := make(chan error, 1), make(chan error, 1)
			go under(untilLease{context.Background(), l}, l, func(ctx context.Context) {
				released <- l.Release(context.Background())
				ended <- ctx.Err()
			})
			select {
			case err := <-released:
				if end := <-ended; err != nil || end == nil {
					t.Error(err, end)
				}
			case <-time.After(5 * time.Second):
				t.Error("the release hangs")
			}
		})
	}
}
