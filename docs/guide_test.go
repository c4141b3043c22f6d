package docs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// These are pieces of guide.md. The tests run them on a server in memory.

type order struct {
	ID    string `bson:"_id"`
	Total int    `bson:"total"`
	Notes string `bson:"notes,omitempty"`
}

func saveFields(ctx context.Context, lease doclock.Lease, order order) error {
	return lease.UpdateAndRelease(ctx, bson.M{"$set": order})
}

func replaceAllElse(ctx context.Context, orders *mongo.Collection, lease doclock.Lease, order order) (*mongo.UpdateResult, error) {
	keep := bson.M{"$mergeObjects": bson.A{bson.M{"$literal": order}, bson.M{"lock": "$lock"}}}
	return orders.UpdateOne(ctx, lease.Guard(), mongo.Pipeline{{{Key: "$replaceWith", Value: keep}}})
}

func removeLocks(ctx context.Context, orders *mongo.Collection, now time.Time) error {
	unused := bson.M{
		"lock.fence":        bson.M{"$lt": now.Add(-time.Hour).UnixMilli()},
		"lock.tags.write.0": bson.M{"$exists": false}, // and so on, for each tag
	}
	_, err := orders.UpdateMany(ctx, unused, bson.M{"$unset": bson.M{"lock": 1}})
	return err
}

func publish(ctx context.Context, reports *mongo.Collection, lease doclock.Lease, text string) (*mongo.UpdateResult, error) {
	older := bson.M{"_id": "A-17", "fence": bson.M{"$not": bson.M{"$gt": lease.Fence()}}}
	return reports.UpdateOne(ctx, older, bson.M{"$set": bson.M{"text": text, "fence": lease.Fence()}})
}

func withExport() relations.Rules {
	rules := relations.WritePreferring()
	rules["export"] = map[string]relations.Relation{"write": {Kind: relations.Cooperative}}
	rules["write"]["export"] = relations.Relation{Kind: relations.Assertive}
	return rules
}

// A save changes what it should, and leaves the lock in the document. Without the lock it does nothing. When nobody locks
// any more, what a release leaves can go, and the tokens go on increasing.
func TestGuideSaves(t *testing.T) {
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17", "total": 1, "notes": "old"})
	locks, err := writelock.New(orders)
	must(t, err)
	acquire := func() doclock.Lease {
		lease, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
		must(t, err)
		return lease
	}
	expect := func(want order, fence int64) {
		t.Helper()
		var got struct {
			Order order `bson:",inline"`
			Lock  struct{ Fence int64 }
		}
		must(t, orders.FindOne(t.Context(), doclock.ID("A-17")).Decode(&got))
		if got.Order != want || got.Lock.Fence != fence {
			t.Errorf("%+v, want %+v and the fence %d", got, want, fence)
		}
	}
	first := acquire()
	must(t, saveFields(t.Context(), first, order{ID: "A-17", Total: 2}))
	expect(order{"A-17", 2, "old"}, first.Fence())
	second := acquire()
	saved, err := replaceAllElse(t.Context(), orders, second, order{ID: "A-17", Total: 3})
	if err != nil || saved.MatchedCount != 1 {
		t.Error(saved, err)
	}
	must(t, second.Release(t.Context()))
	if late, err := replaceAllElse(t.Context(), orders, second, order{ID: "A-17"}); err != nil || late.MatchedCount != 0 {
		t.Error(late, err)
	}
	must(t, removeLocks(t.Context(), orders, mem.Now()))
	expect(order{"A-17", 3, ""}, second.Fence()) // too early
	mem.Advance(2 * time.Hour)
	third := acquire()
	mem.Advance(2 * time.Hour)
	must(t, removeLocks(t.Context(), orders, mem.Now()))
	expect(order{"A-17", 3, ""}, third.Fence()) // it is expired, and was not released
	must(t, third.Release(t.Context()))
	must(t, removeLocks(t.Context(), orders, mem.Now()))
	expect(order{"A-17", 3, ""}, 0)
	if again := acquire(); again.Fence() <= third.Fence() {
		t.Error(again.Fence(), third.Fence())
	}
}

// The target takes what comes in the order of the tokens.
func TestGuideFence(t *testing.T) {
	mem := locktest.Start()
	defer mem.Close()
	reports := mem.Collection("reports", bson.M{"_id": "A-17"})
	locks, err := writelock.New(mem.Collection("orders", bson.M{"_id": "A-17"}))
	must(t, err)
	stopped, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	must(t, err)
	mem.Advance(time.Minute)
	next, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	must(t, err)
	for i, lease := range []doclock.Lease{stopped, next, stopped, next} {
		written, err := publish(t.Context(), reports, lease, "a report")
		if late := i == 2; err != nil || (written.MatchedCount == 0) != late {
			t.Error(i, written, err)
		}
	}
}

// A program without the new tag keeps out of its way; one with it knows the relations.
func TestGuideNewTag(t *testing.T) {
	orders := locktest.New(t).Collection("orders", bson.M{"_id": "A-17"})
	before, err := multilock.New(orders, relations.WritePreferring())
	must(t, err)
	after, err := multilock.New(orders, withExport())
	must(t, err)
	for _, c := range []struct {
		locks *multilock.Locker
		tag   string
		want  error
	}{{after, "export", nil}, {before, "read", doclock.ErrConflict}, {after, "read", nil}, {after, "write", doclock.ErrConflict}} {
		if _, err := c.locks.TryAcquire(t.Context(), doclock.ID("A-17"), c.tag); !errors.Is(err, c.want) {
			t.Error(c.tag, err)
		}
	}
}
