package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Properties of an observer that is too slow for the events.
const (
	DroppedCounted = "what an observer has missed is counted"
	DroppedInOrder = "renewals are dropped first, and losses and unknown outcomes last"
)

// SeenDropped counts the events that observers have missed.
const SeenDropped = "events dropped"

// mostWaiting is how many events wait for an observer, by the doc comment of
// doclock.OnEvent.
const mostWaiting = 1024

// flood is an observer that is stuck while more events come than wait for it.
type flood struct {
	*rand.Rand
	mem     *locktest.Server
	locks   *writelock.Locker
	lease   *doclock.Lease
	emitted []doclock.EventKind // in the order of what has happened
	got     []doclock.Event
	stuck   chan struct{}
}

// Flood runs one for each seed.
func Flood(t *testing.T, first uint64, seeds int, counts *tally.Tally) {
	for seed := first; seed < first+uint64(seeds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			f := &flood{Rand: rand.New(rand.NewPCG(seed, 0)), mem: locktest.New(), stuck: make(chan struct{})}
			orders, err := f.mem.Collection("orders", bson.M{"_id": 1})
			if err != nil {
				t.Fatal(err)
			}
			if f.locks, err = writelock.New(orders, doclock.TTL(100*time.Hour), doclock.OnEvent(f.hear)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := f.round(seed, counts); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// hear is the observer.
func (f *flood) hear(_ context.Context, e doclock.Event) {
	<-f.stuck
	f.got = append(f.got, e)
}

// round causes some events, lets the observer go on, and compares.
func (f *flood) round(seed uint64, counts *tally.Tally) error {
	f.emitted, f.got, f.stuck = nil, nil, make(chan struct{})
	renewals := f.IntN(20)
	for n := 500 + f.IntN(3000); len(f.emitted) < n; {
		if err := f.step(renewals); err != nil {
			return err
		}
		synctest.Wait() // the first is being delivered
	}
	close(f.stuck)
	synctest.Wait()
	counts.Checked(DroppedCounted, 1)
	dropped := 0
	for _, e := range f.got {
		dropped += e.Dropped
	}
	if len(f.got)+dropped != len(f.emitted) || dropped != max(0, len(f.emitted)-mostWaiting-1) {
		counts.Violated(DroppedCounted, "seed %d: of %d events %d were delivered, and %d counted as dropped", seed, len(f.emitted), len(f.got), dropped)
	}
	counts.Checked(DroppedInOrder, 1)
	var got [3]int
	for _, e := range f.got {
		got[rank(e.Kind)]++
	}
	if want := f.left(); got != want {
		counts.Violated(DroppedInOrder, "seed %d: %d renewals, %d others and %d losses and unknown outcomes were delivered, and should be %d", seed, got[0], got[1], got[2], want)
	}
	counts.Seen(SeenDropped, dropped)
	return nil
}

// step causes one event, or a few.
func (f *flood) step(renewals int) error {
	ctx := context.Background()
	time.Sleep(time.Millisecond)
	if f.lease == nil {
		lease, err := f.locks.Acquire(ctx, bson.M{"_id": 1})
		f.lease, f.emitted = lease, append(f.emitted, doclock.EventGranted)
		return err
	}
	switch k := f.IntN(20 + renewals); {
	case k < 12:
		f.emitted = append(f.emitted, doclock.EventRefused)
		if _, err := f.locks.TryAcquire(ctx, bson.M{"_id": 1}); !errors.Is(err, doclock.ErrConflict) {
			return fmt.Errorf("beside a holder: %w", err)
		}
		return nil
	case k < 17:
		lease := f.lease
		f.lease, f.emitted = nil, append(f.emitted, doclock.EventReleased)
		return lease.Release(ctx)
	case k < 18:
		lease := f.lease
		f.lease, f.emitted = nil, append(f.emitted, doclock.EventLost)
		if err := f.mem.Lose(lease); err != nil {
			return err
		}
		if err := lease.Release(ctx); !errors.Is(err, doclock.ErrLost) {
			return fmt.Errorf("after a loss: %w", err)
		}
		return nil
	case k < 20:
		f.emitted = append(f.emitted, doclock.EventOutcomeUnknown)
		f.mem.Delay(1, time.Second)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := f.lease.Update(short, bson.M{"$set": bson.M{"n": 1}}); !errors.Is(err, doclock.ErrOutcomeUnknown) {
			return fmt.Errorf("a caller that has left: %w", err)
		}
		time.Sleep(2 * time.Second)
		return nil
	default:
		f.emitted = append(f.emitted, doclock.EventRenewed)
		return f.lease.Renew(ctx)
	}
}

// rank orders the kinds by what is dropped first.
func rank(kind doclock.EventKind) int {
	switch kind {
	case doclock.EventRenewed:
		return 0
	case doclock.EventLost, doclock.EventOutcomeUnknown:
		return 2
	default:
		return 1
	}
}

// left is how many of each rank are delivered. The first event is being delivered, and
// the others wait.
func (f *flood) left() (n [3]int) {
	for i, kind := range f.emitted {
		n[rank(kind)]++
		if i <= mostWaiting {
			continue
		}
		delivering := rank(f.emitted[0])
		for of := range n {
			if n[of] > 0 && (of != delivering || n[of] > 1) {
				n[of]--
				break
			}
		}
	}
	return n
}
