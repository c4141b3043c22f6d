package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A shutdown, or a stop for longer than the leases, in the midst of a batch: another worker does
// what is left. Only the job in hand may be done twice, after a stop.
func TestABatchThatIsInterrupted(t *testing.T) {
	for name, stopped := range map[string]bool{"shutdown": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := locktest.New(t)
				jobs := mem.Collection("jobs")
				for i, job := range []string{"first", "second", "third"} {
					if _, err := jobs.InsertOne(t.Context(), bson.M{"name": job, "priority": -i, "state": "pending"}); err != nil {
						t.Fatal(err)
					}
				}
				pending := bson.M{"state": "pending"}
				one, err := writelock.New(jobs)
				check(err)
				two, err := writelock.New(mem.Connect().Database("test").Collection("jobs"))
				check(err)
				ctx, shutdown := context.WithCancel(t.Context())
				defer shutdown()
				times := map[string]int{}
				work := func(_ context.Context, j job) error { times[j.Name]++; return nil }
				rest := func() {
					ctx, end := context.WithTimeout(t.Context(), time.Minute)
					defer end()
					_, _ = batch(ctx, two, pending, 3, work)
				}
				_, err = batch(ctx, one, pending, 3, func(ctx context.Context, j job) error {
					if stopped {
						mem.Advance(time.Minute)
						rest()
					} else {
						shutdown()
					}
					time.Sleep(20 * time.Second)
					return work(ctx, j)
				})
				if stopped != errors.Is(err, doclock.ErrLost) {
					t.Error(err)
				}
				rest()
				stay := 1
				if stopped {
					stay = 2 // the one in hand: work of its own is not under the guard
				}
				if times["first"] != stay || times["second"] != 1 || times["third"] != 1 {
					t.Error(times)
				}
			})
		})
	}
}
