package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The same change, as a classic update and as a pipeline. Each test below runs
// with both.
var increments = map[string]any{
	"classic":  bson.M{"$inc": bson.M{"count": 1}},
	"pipeline": bson.A{bson.M{"$set": bson.M{"count": bson.M{"$add": bson.A{bson.M{"$ifNull": bson.A{"$count", 0}}, 1}}}}},
}

// bothWays runs body with each form of the increment, in a world of its own.
func bothWays(t *testing.T, body func(w *world, increment any)) {
	t.Helper()
	for form, increment := range increments {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			body(newWorld(t, hello()), increment)
		})
	}
}

// counts checks the number of increments so far.
func (w *world) counts(want int32) {
	w.Helper()
	if got, _ := w.decoded()["count"].(int32); got != want {
		w.Fatalf("count is %d, want %d", got, want)
	}
}

func TestWriteKeepsTheLock(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Fair())
		p.acquire(bob, "read", Granted)
		g := p.acquire(ann, "read", Granted)
		p.acquire(cid, "write", Waiting)
		w.at(second)
		p.write(g, increment, 1, Applied)
		p.write(g, increment, 2, Applied)
		w.counts(2)
		w.is(stored{fence: n0 + 2, tags: rows{
			"read": {
				{id: bob, seq: n0, fence: n0, expires: held},
				{id: ann, seq: n0 + 1, fence: n0 + 1, expires: held, n: 2},
			},
			"write": {{id: cid, seq: n0 + 2, expires: waits}},
		}})
	})
}

// A write needs a present entry; the time doesn't matter.
func TestWriteAfterTheEnd(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.at(20 * second)
		p.write(g, increment, 1, Applied)
		p.finish(g, increment, Applied)
		w.counts(2)
	})
}

func TestWriteLost(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.at(held)
		p.acquire(bob, "write", Granted)
		before := w.Stored()
		p.write(g, increment, 1, Lost)
		p.finish(g, increment, Lost)
		if after := w.Stored(); !bytes.Equal(before, after) {
			w.Errorf("lost writes made %v of %v", after, before)
		}
		w.Delete()
		u := p.parsed(increment)
		if got, err := p.Write(w.Context(), g, u, 2); got.Outcome != Lost || err != nil {
			w.Errorf("of a missing document: %v, %v", got.Outcome, err)
		}
		if got, err := p.WriteAndRelease(w.Context(), g, u); got.Outcome != Lost || err != nil {
			w.Errorf("of a missing document: %v, %v", got.Outcome, err)
		}
	})
}

// The verdict on a write of unknown outcome is in the entry.
func TestWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.write(g, increment, 1, Applied)
		p.write(g, increment, 1, Lost) // the repeat
		w.counts(1)
		if own, there := p.read(g).Lock.Find("write", ann); !there || own.Writes != 1 || own.Fence != g.Fence {
			w.Errorf("the entry is %+v, %v", own, there)
		}
	})
}

func TestFinishReleases(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Fair())
		p.acquire(bob, "read", Granted)
		g := p.acquire(ann, "read", Granted)
		p.acquire(cid, "write", Waiting)
		p.write(g, increment, 1, Applied)
		p.finish(g, increment, Applied)
		w.counts(2)
		w.is(stored{fence: n0 + 2, tags: rows{
			"read":  {{id: bob, seq: n0, fence: n0, expires: held}},
			"write": {{id: cid, seq: n0 + 2, expires: waits}},
		}, done: []uuid.UUID{ann}})

		p.finish(g, increment, Lost) // the repeat
		w.counts(2)
		if img := p.read(g); !img.Lock.FinishedBy(ann) || img.Lock.FinishedBy(bob) {
			w.Errorf("done is %v", img.Lock.Done)
		}
	})
}

func TestFinishLeavesAnEmptyArray(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		p.finish(p.acquire(ann, "write", Granted), increment, Applied)
		w.is(stored{fence: n0, tags: rows{"write": {}}, done: []uuid.UUID{ann}})
	})
}

// done keeps the last ids, the newest at the end.
func TestFinishKeepsEightIDs(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		var ids []uuid.UUID
		var last uuid.UUID
		for i := range DoneCap + 2 {
			id := named(fmt.Sprint("lease ", i))
			g := p.acquire(id, "write", Granted)
			if g.LastDone != last {
				w.Fatalf("lease %d: the newest in done is %q", i, g.LastDone[:])
			}
			p.finish(g, increment, Applied)
			ids, last = append(ids, id), id
		}
		w.is(stored{fence: n0 + DoneCap + 1, tags: rows{"write": {}}, done: ids[2:]})
	})
}

// A waiting entry can't write: it has no fencing token.
func TestWriteOfAWaitingEntryIsLost(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Fair())
		p.acquire(bob, "read", Granted)
		g := p.acquire(ann, "write", Waiting)
		p.write(g, increment, 1, Lost)
		p.finish(g, increment, Lost)
		w.counts(0)
	})
}

func TestWriteWithArrayFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "items", Value: bson.A{bson.M{"n": 1}, bson.M{"n": 5}}})
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	u, err := p.ParseUpdate(bson.M{"$inc": bson.M{"items.$[big].n": 1}, "$push": bson.M{"log": "x"}, "$pull": bson.M{"none": 1}},
		options.UpdateOne().SetArrayFilters([]any{bson.M{"big.n": bson.M{"$gt": 3}}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Write(t.Context(), g, u, 1); got.Outcome != Applied || err != nil {
		t.Fatal(got.Outcome, err)
	}
	s := Successor{Request: Request{ID: bob, Tag: "write"}}
	if can, _ := p.Piggybacks(g, u, s); !can {
		t.Fatal("the update can't be piggybacked")
	}
	got, err := p.WriteAndHandOff(t.Context(), g, u, s)
	if got.Outcome != Granted || err != nil {
		t.Fatal(got.Outcome, err)
	}
	if got, err := p.WriteAndRelease(t.Context(), p.Grant(got.Image, Request{Tag: "write", ID: bob}), u); got.Outcome != Applied || err != nil {
		t.Fatal(got.Outcome, err)
	}
	w.fieldIs("items", bson.A{bson.M{"n": int32(1)}, bson.M{"n": int32(8)}})
	w.fieldIs("log", bson.A{"x", "x", "x"})
	w.is(stored{fence: n0 + 1, tags: rows{"write": {}}, done: []uuid.UUID{ann, bob}})
}

// The caller may use operators that the library uses too.
func TestWriteWithTheLibrarysOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "high", Value: 1}, bson.E{Key: "list", Value: bson.A{"a", "b"}})
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	p.write(g, bson.D{{Key: numbering, Value: bson.M{"high": 9}}}, 1, Applied)
	p.write(g, bson.M{numbering: bson.D{{Key: "high", Value: 3}}}, 2, Applied)
	p.finish(g, bson.M{"$push": bson.M{"log": "x"}, "$pull": bson.D{{Key: "list", Value: "a"}}, numbering: bson.M{"high": 10}}, Applied)
	w.fieldIs("high", int32(10))
	w.fieldIs("log", bson.A{"x"})
	w.fieldIs("list", bson.A{"b"})
	w.is(stored{fence: n0, tags: rows{"write": {}}, done: []uuid.UUID{ann}})
}
