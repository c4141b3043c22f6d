package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Three programs do the steps of an order. Some tries fail, and one program stops
// while it works. The steps are done in order all the same, and never two at a time.
func TestStepsAreDoneInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const last, programs = 12, 3
		mem := locktest.New()
		var documents []any
		for number := last; number > 0; number-- {
			documents = append(documents, bson.M{"order": "A-17", "number": number, "done": false})
		}
		steps, err := mem.Collection("steps", documents...)
		check(err)
		var atWork, tries atomic.Int32
		var done []int // guarded by the lock
		work := func(ctx context.Context, s step) error {
			if n := atWork.Add(1); n > 1 {
				t.Errorf("%d at work", n)
			}
			defer atWork.Add(-1)
			time.Sleep(time.Second)
			if tries.Add(1)%5 == 0 {
				return errors.New("failed")
			}
			done = append(done, s.Number)
			return nil
		}
		stopped, err := writelock.New(steps)
		check(err)
		_, err = stopped.TryAcquire(t.Context(), bson.M{"order": "A-17", "done": false}, byNumber) // neither renews nor releases
		check(err)

		var workers sync.WaitGroup
		for range programs {
			workers.Go(func() {
				locks, err := writelock.New(steps)
				check(err)
				for open := int64(1); open > 0; {
					_ = next(t.Context(), locks, "A-17", work)
					open, err = steps.CountDocuments(t.Context(), bson.M{"done": false})
					check(err)
				}
			})
		}
		workers.Wait()
		if !slices.IsSorted(done) || len(done) != last {
			t.Error("done:", done)
		}
		if err := next(t.Context(), stopped, "A-17", work); !errors.Is(err, doclock.ErrNotFound) {
			t.Error(err)
		}
	})
}
