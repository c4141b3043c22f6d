package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// These are the pieces of code of guide.md. The tests run them on a server in memory.

type order struct {
	ID    string `bson:"_id"`
	Total int    `bson:"total"`
	Notes string `bson:"notes,omitempty"`
}

func saveFields(ctx context.Context, lease *doclock.Lease, order order) error {
	return lease.UpdateAndRelease(ctx, bson.M{"$set": order})
}

func replaceAllElse(ctx context.Context, orders *mongo.Collection, lease *doclock.Lease, order order) error {
	keep := bson.M{"$mergeObjects": bson.A{bson.M{"$literal": order}, bson.M{"lock": "$lock"}}}
	saved, err := orders.UpdateOne(ctx, lease.Guard(), mongo.Pipeline{{{Key: "$replaceWith", Value: keep}}})
	if err == nil && saved.MatchedCount == 0 {
		err = errors.New("the lock is lost: nothing was written")
	}
	return err
}

func removeLocks(ctx context.Context, orders *mongo.Collection, now time.Time) error {
	unused := bson.M{
		"lock.fence":        bson.M{"$lt": now.Add(-time.Hour).UnixMilli()},
		"lock.tags.write.0": bson.M{"$exists": false}, // and so on, for each tag
	}
	_, err := orders.UpdateMany(ctx, unused, bson.M{"$unset": bson.M{"lock": 1}})
	return err
}

func publish(ctx context.Context, reports *mongo.Collection, lease *doclock.Lease, text string) error {
	older := bson.M{"_id": "A-17", "fence": bson.M{"$not": bson.M{"$gt": lease.Fence()}}}
	written, err := reports.UpdateOne(ctx, older, bson.M{"$set": bson.M{"text": text, "fence": lease.Fence()}})
	if err == nil && written.MatchedCount == 0 {
		err = errors.New("too late: a later holder has written")
	}
	return err
}

func withExport() relations.Rules {
	rules := relations.WritePreferring()
	rules["export"] = map[string]relations.Relation{"write": {Kind: relations.Cooperative}}
	rules["write"]["export"] = relations.Relation{Kind: relations.Assertive}
	return rules
}

func open(ctx context.Context, orders *mongo.Collection) (*writelock.Locker, error) {
	server, err := doclock.CheckServer(ctx, orders)
	if err != nil {
		return nil, err
	}
	tolerance := max(500*time.Millisecond, 2*server.ClockSkew)
	return writelock.New(orders, doclock.TTL(30*time.Second), doclock.ClockTolerance(tolerance))
}

func byCustomer(ctx context.Context, orders *mongo.Collection, work func(context.Context, *doclock.Lease) error) error {
	locks, err := writelock.New(orders, doclock.ShardKey("customer"))
	if err != nil {
		return err
	}
	return locks.Do(ctx, bson.M{"customer": "Ann", "_id": "A-17"}, work)
}

// A save changes what it should, and leaves the lock in the document.
func TestGuideSave(t *testing.T) {
	for name, save := range map[string]func(context.Context, *mongo.Collection, *doclock.Lease, order) error{
		"fields": func(ctx context.Context, _ *mongo.Collection, lease *doclock.Lease, o order) error {
			return saveFields(ctx, lease, o)
		},
		"all else": replaceAllElse,
	} {
		t.Run(name, func(t *testing.T) {
			orders := inMemory(t, locktest.New(), "orders", bson.M{"_id": "A-17", "total": 1, "notes": "old"})
			locks, err := writelock.New(orders)
			must(t, err)
			lease, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
			must(t, err)
			must(t, save(t.Context(), orders, lease, order{ID: "A-17", Total: 2}))
			must(t, lease.Release(t.Context()))
			var stored order
			var kept struct{ Lock struct{ Fence int64 } }
			must(t, orders.FindOne(t.Context(), doclock.ID("A-17")).Decode(&stored))
			must(t, orders.FindOne(t.Context(), doclock.ID("A-17")).Decode(&kept))
			if stored.Total != 2 || kept.Lock.Fence != lease.Fence() || (stored.Notes == "") != (name == "all else") {
				t.Errorf("%+v, %+v", stored, kept)
			}
		})
	}
	orders := inMemory(t, locktest.New(), "orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	must(t, err)
	lease, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	must(t, err)
	must(t, lease.Release(t.Context()))
	if err := replaceAllElse(t.Context(), orders, lease, order{ID: "A-17"}); err == nil {
		t.Error("a save without the lock was applied")
	}
}

// A release leaves the counter of the tokens. When nobody locks any more, it can go, and the
// tokens go on increasing.
func Example_whatStays() {
	ctx := context.Background()
	mem := locktest.New()
	orders, err := mem.Collection("orders", bson.M{"_id": "A-17"})
	check(err)
	locks, err := writelock.New(orders)
	check(err)
	last := int64(0)
	for range 10 {
		lease, err := locks.TryAcquire(ctx, doclock.ID("A-17"))
		check(err)
		last = lease.Fence()
		check(lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"prints": 1}}))
	}
	fmt.Println("after ten locks:", lockOf(ctx, orders))
	check(removeLocks(ctx, orders, mem.Now()))
	fmt.Println("removed too early:", lockOf(ctx, orders))
	mem.Advance(time.Hour + time.Second)
	lease, err := locks.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)
	mem.Advance(time.Hour + time.Second) // it is expired, and was not released
	check(removeLocks(ctx, orders, mem.Now()))
	fmt.Println("beside an entry:", lockOf(ctx, orders))
	check(lease.Release(ctx))
	check(removeLocks(ctx, orders, mem.Now()))
	fmt.Println("removed:", lockOf(ctx, orders))
	lease, err = locks.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)
	fmt.Println("the next token is greater:", lease.Fence() > last)
	// Output:
	// after ten locks: {fence, tags: {write: 0 entries}, done: 8 ids}
	// removed too early: {fence, tags: {write: 0 entries}, done: 8 ids}
	// beside an entry: {fence, tags: {write: 1 entries}, done: 8 ids}
	// removed: nothing
	// the next token is greater: true
}

// lockOf is what the document has of the lock.
func lockOf(ctx context.Context, orders *mongo.Collection) string {
	var stored struct {
		Lock *struct {
			Fence int64
			Tags  struct{ Write bson.A }
			Done  bson.A
		}
	}
	check(orders.FindOne(ctx, doclock.ID("A-17")).Decode(&stored))
	if stored.Lock == nil {
		return "nothing"
	}
	return fmt.Sprintf("{fence, tags: {write: %d entries}, done: %d ids}", len(stored.Lock.Tags.Write), len(stored.Lock.Done))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The target takes what comes in the order of the tokens.
func TestGuideFence(t *testing.T) {
	mem := locktest.New()
	orders, reports := inMemory(t, mem, "orders", bson.M{"_id": "A-17"}), inMemory(t, mem, "reports", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	must(t, err)
	stopped, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	must(t, err)
	must(t, publish(t.Context(), reports, stopped, "begun"))
	mem.Advance(time.Minute)
	next, err := locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	must(t, err)
	must(t, publish(t.Context(), reports, next, "done"))
	if err := publish(t.Context(), reports, stopped, "late"); err == nil {
		t.Error("a late report was published")
	}
	must(t, publish(t.Context(), reports, next, "done, and once more"))
}

// A program without the new tag keeps out of its way; one with it knows the relations.
func TestGuideNewTag(t *testing.T) {
	orders := inMemory(t, locktest.New(), "orders", bson.M{"_id": "A-17"})
	before, err := multilock.New(orders, relations.WritePreferring())
	must(t, err)
	after, err := multilock.New(orders, withExport())
	must(t, err)
	export, err := after.TryAcquire(t.Context(), doclock.ID("A-17"), "export")
	must(t, err)
	if _, err := before.TryAcquire(t.Context(), doclock.ID("A-17"), "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Error(err)
	}
	read, err := after.TryAcquire(t.Context(), doclock.ID("A-17"), "read")
	must(t, err)
	if _, err := after.TryAcquire(t.Context(), doclock.ID("A-17"), "write"); !errors.Is(err, doclock.ErrConflict) {
		t.Error(err)
	}
	must(t, read.Release(t.Context()))
	must(t, export.Release(t.Context()))
}

func TestGuideOpens(t *testing.T) {
	orders := inMemory(t, locktest.New(), "orders", bson.M{"_id": "A-17", "customer": "Ann"})
	_, err := open(t.Context(), orders)
	must(t, err)
	must(t, byCustomer(t.Context(), orders, func(ctx context.Context, lease *doclock.Lease) error {
		return lease.Update(ctx, bson.M{"$set": bson.M{"total": 1}})
	}))
}
