package multilock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Many clients insert the same lock document at once. One is granted, the others
// are refused or wait, and none gets the duplicate key error.
func TestUpsertByManyAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive(), doclock.Upsert())
	for round := range 10 {
		filter := bson.M{"_id": bson.M{"round": round}}
		var mu sync.Mutex
		var granted []*doclock.Lease
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				lease, err := l.TryAcquire(p.bounded(), filter, "write")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					granted = append(granted, lease)
				} else if !errors.Is(err, doclock.ErrConflict) {
					t.Errorf("TryAcquire: %v", err)
				}
			})
		}
		all.Wait()
		if len(granted) != 1 {
			t.Fatalf("%d were granted", len(granted))
		}
		if n, err := p.coll.CountDocuments(t.Context(), filter); n != 1 || err != nil {
			t.Errorf("%d documents (%v)", n, err)
		}
	}
}

// A duplicate key without a lost race must not be retried for ever: the document
// exists and doesn't match the rest of the filter, or another unique index
// prevents the insert.
func TestUpsertThatCanNeverInsertIsAnError(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive(), doclock.Upsert())
		if _, err := p.coll.Indexes().CreateOne(p.Context(), mongo.IndexModel{
			Keys: bson.M{"name": 1}, Options: options.Index().SetUnique(true),
		}); err != nil {
			p.Fatal(err)
		}
		for name, filter := range map[string]bson.M{
			"the rest of the filter": {"_id": 1, "name": "weeds"},
			"another unique index":   {"_id": 2, "name": "flowers"},
		} {
			ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
			defer cancel()
			w.Take()
			begun := time.Now()
			_, err := l.TryAcquire(ctx, filter, "write")
			if ctx.Err() != nil || time.Since(begun) > 5*time.Second {
				p.Errorf("%s: it went on for ever, with %d commands", name, len(w.Take()))
			}
			p.wantNot(err, doclock.ErrOutcomeUnknown)
			if err == nil || !mongo.IsDuplicateKeyError(err) {
				p.Errorf("%s: %v", name, err)
			}
		}
		if n, err := p.coll.CountDocuments(p.Context(), bson.M{}); n != 1 || err != nil {
			p.Errorf("%d documents (%v)", n, err)
		}
		p.wantEntries()
	})
}
