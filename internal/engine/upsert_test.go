package engine

import (
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
	for name, filter := range map[string]bson.M{
		"the _id is another's": {"_id": w.ID, "kind": "other"},
		"a unique index":       {"_id": "new"},
	} {
		f, err := p.ParseFilter(filter)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: ann})
		if f := AsFailure(err); !mongo.IsDuplicateKeyError(err) || !f.Nothing || f.Passes {
			t.Errorf("%s: %v, %v", name, got.Outcome, err)
		}
	}
	w.hasNoLock()
}
