package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const second = time.Second

func hello() bson.E { return bson.E{Key: "text", Value: "hello"} }

func TestAcquireFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	g := w.peer(relations.Exclusive()).acquire(ann, "write", Granted)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}}}})
	want := Grant{Pin: Pin{{Key: "_id", Value: g.Pin.ID()}}, TTL: ttl, Alone: n0, Entry: Entry{Tag: "write", ID: ann, Seq: n0, Fence: n0, Owner: "test", Since: epoch, Expires: epoch.Add(held)}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("the grant (-want +got):\n%s", diff)
	}
	if id := g.Pin.ID().AsInt64(); id != 1 {
		t.Errorf("the grant is of document %d", id)
	}
}

func TestAcquireRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	p.acquire(ann, "write", Granted)
	before := w.Stored()
	w.at(second)
	for _, tag := range []string{"read", "write"} {
		for _, try := range []bool{false, true} {
			img := p.arrive(Request{Tag: tag, ID: bob, Try: try}, Conflict)
			entries, free := p.InTheWay(img, tag, nil)
			if len(entries) != 1 || entries[0].ID != ann || entries[0].Owner != "test" || free != held-second {
				t.Errorf("in the way of %q: %+v, for %v", tag, entries, free)
			}
		}
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a refused acquire made %v of %v", after, before)
	}
}

func TestAcquireByAnyFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "name", Value: "garden"}, bson.E{Key: "size", Value: 7})
	p := w.peer(relations.Exclusive())
	f, err := p.ParseFilter(bson.M{"name": "garden", "size": bson.M{"$gt": 5}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: ann})
	if got.Outcome != Granted || err != nil {
		t.Fatal(got.Outcome, err)
	}
	p.asStored("acquire", got.Image)

	// The narrowed filter still demands the same as before.
	w.Change(bson.M{"$set": bson.M{"size": 3}})
	got, err = p.Engine.Acquire(t.Context(), f.At(p.Pin(got.Image)), Request{Tag: "write", ID: bob})
	if got.Outcome != NotFound || got.Image != nil || err != nil {
		t.Fatal(got.Outcome, got.Image, err)
	}
}
