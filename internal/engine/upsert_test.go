package engine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func upserting(c *Config) { c.Upsert = true }

// The filter's equalities become fields, as in any upsert.
func TestUpsertMakesTheDocument(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.ID, w.key = "job-7", bson.D{{Key: "city", Value: "Bern"}}
	p := w.peer(relations.Exclusive(), upserting)
	got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: ann, Document: true})
	if got.Outcome != Granted || err != nil {
		t.Fatal(got.Outcome, err)
	}
	p.asStored("acquire", got.Image)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}}}})
	if doc := w.decoded(); doc["_id"] != "job-7" || doc["city"] != "Bern" || len(doc) != 3 {
		t.Errorf("the document is %v", doc)
	}
	if n := w.sent.Count(); n != 3 {
		t.Errorf("%d commands to find nothing, make the document, and acquire", n)
	}

	// The next acquire is one command.
	p.acquire(bob, "write", Conflict)
	p.acquire(ann, "write", Granted)
}

// Many clients acquire in a document that doesn't exist: exactly one of them is
// the first.
func TestUpsertRace(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	p := w.peer(relations.Exclusive(), upserting)
	for w.ID = range int32(10) {
		var all sync.WaitGroup
		granted := make(chan uuid.UUID, 12)
		for range cap(granted) {
			all.Go(func() {
				id := uuid.New()
				got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: id})
				if err != nil || got.Outcome != Granted && got.Outcome != Conflict || len(got.Image.Lock.Entries) != 1 {
					t.Error(got.Outcome, err)
				}
				if got.Outcome == Granted {
					granted <- id
				}
			})
		}
		all.Wait()
		if n := len(granted); n != 1 {
			t.Fatalf("document %d: %d were granted", w.ID, n)
		}
		w.is(stored{fence: n0, tags: rows{"write": {{id: <-granted, seq: n0, fence: n0, expires: held}}}})
	}
}

// If the document can't be inserted, the caller gets the server's error, and
// the insert is not repeated for ever.
func TestUpsertRefused(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.Insert(bson.E{Key: "kind", Value: "garden"})
	index := mongo.IndexModel{Keys: bson.D{{Key: "mail", Value: 1}}, Options: options.Index().SetUnique(true)}
	if _, err := w.Hand.Indexes().CreateOne(t.Context(), index); err != nil {
		t.Fatal(err)
	}
	p := w.peer(relations.Exclusive(), upserting)
	f, err := p.ParseFilter(bson.M{"_id": "new"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: ann})
	if f := AsFailure(err); !mongo.IsDuplicateKeyError(err) || !f.Nothing || f.Passes {
		t.Errorf("%v, %v", got.Outcome, err)
	}
	w.hasNoLock()
}

// A document is made if the filter matches it then, and else none is. One that is there
// and doesn't match is left as it is.
func TestUpsertMakesWhatTheFilterMatches(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.Insert(bson.E{Key: "kind", Value: "garden"})
	there := w.ID
	p := w.peer(relations.Exclusive(), upserting)
	for i, c := range []struct {
		made   bool
		filter bson.D
	}{
		{true, bson.D{{Key: "kind", Value: "other"}, {Key: "deep.down", Value: nil}}},
		{true, bson.D{{Key: "off", Value: bson.M{"$ne": true}}, {Key: "state", Value: bson.M{"$nin": bson.A{"a", "b"}}}}},
		{true, bson.D{{Key: "gone", Value: bson.M{"$exists": false}}, {Key: "lock.tags.write.0", Value: bson.M{"$exists": false}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$gt": 5}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$ne": nil}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$nin": bson.A{1, nil}}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$exists": true}}}},
		{false, bson.D{{Key: "n", Value: bson.Regex{Pattern: "^a"}}}},
		{false, bson.D{{Key: "kind", Value: bson.M{"b": 1}}, {Key: "kind.b", Value: bson.M{"$ne": 1}}}},
		{false, bson.D{{Key: "lock", Value: bson.M{"$exists": false}}}},
		{false, bson.D{{Key: "$or", Value: bson.A{bson.M{"kind": "a"}, bson.M{"kind": "b"}}}}},
	} {
		for _, id := range []any{there, fmt.Sprint("new ", i)} {
			f, err := p.ParseFilter(append(bson.D{{Key: "_id", Value: id}}, c.filter...))
			if err != nil {
				t.Fatal(err)
			}
			matched, _ := w.Hand.CountDocuments(t.Context(), f.doc)
			got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: uuid.New()})
			made, _ := w.Hand.CountDocuments(t.Context(), bson.M{"_id": id})
			want := NotFound
			switch {
			case id != there && c.made:
				want = Granted
			case id == there && matched == 1:
				want = got.Outcome // granted, or a conflict with one before
			}
			if err != nil || got.Outcome != want || (made == 1) != (id == there || c.made) {
				t.Errorf("%v: %v, %v, and there are %d documents; want %v", f, got.Outcome, err, made, want)
			}
		}
	}
}
