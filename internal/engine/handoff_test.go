package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func successor(id uuid.UUID, tag string) Successor {
	return Successor{Request: Request{ID: id, Tag: tag}}
}

func TestHandoffGrantsTheSuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
	w.at(second)
	next := p.handoff(g, successor(bob, "write"), Granted)
	if next.Fence != n0+1000 || next.Seq != n0+1000 || next.Alone != next.Fence {
		t.Errorf("the successor's grant is %+v", next)
	}
	w.is(stored{fence: n0 + 1000, tags: rows{"write": {
		{id: bob, seq: n0 + 1000, fence: n0 + 1000, since: second, expires: second + held},
	}}})
}

// A handoff that is not possible is a release, and leaves no trace of the
// successor.
func TestRule15ASuccessorThatIsRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	p.acquire(bob, "read", Granted)
	g := p.acquire(ann, "read", Granted)
	next := p.handoff(g, successor(cid, "write"), Conflict)
	if next.Fence != 0 {
		t.Errorf("the successor's grant is %+v", next)
	}
	w.is(stored{fence: n0 + 1, tags: rows{"read": {{id: bob, seq: n0, fence: n0, expires: held}}}})
}

// In rules with a queue, a waiter in the document comes first.
func TestRule15ASuccessorLeavesNoWaiter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.acquire(bob, "write", Waiting)
	p.handoff(g, successor(cid, "write"), Conflict)
	w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: bob, seq: n0 + 1, expires: waits}}}})
}

func TestHandoffBetweenTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	g := p.acquire(ann, "write", Granted)
	r := p.handoff(g, successor(bob, "read"), Granted)
	if r.Tag != "read" || r.Fence != n0+1 {
		t.Errorf("the successor's grant is %+v", r)
	}
	p.handoff(r, successor(cid, "write"), Granted)
	w.is(stored{fence: n0 + 2, tags: rows{"write": {{id: cid, seq: n0 + 2, fence: n0 + 2, expires: held}}}})
}

// Rule 1: a late duplicate of an acquire, with the old id and another fencing
// token, hands nothing over. A repeat does not either.
func TestRule01HandoffMatchesTheFence(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.at(held)
		p.release(p.acquire(bob, "write", Granted), Released)
		p.acquire(ann, "write", Granted) // the duplicate
		p.noHandoff(g, increment, successor(cid, "write"))
	})
}

// The other half of rule 1: fencing tokens may repeat after an outside writer
// erased the lock.
func TestRule01HandoffMatchesTheID(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.Change(bson.M{"$unset": bson.M{"lock": 1}})
		if b := p.acquire(bob, "write", Granted); b.Fence != g.Fence {
			w.Fatalf("fences %d and %d", g.Fence, b.Fence)
		}
		p.noHandoff(g, increment, successor(cid, "write"))
	})
}

// Rule 5: the successor's grant prunes like any other.
func TestRule05HandoffPrunes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(2))
	p.acquire(ann, "slot", Granted)
	w.at(second)
	g := p.acquire(bob, "slot", Granted)
	w.at(held) // ann's entry has expired
	p.handoff(g, successor(cid, "slot"), Granted)
	n := n0 + held.Milliseconds()
	w.is(stored{fence: n, tags: rows{"slot": {{id: cid, seq: n, fence: n, since: held, expires: 2 * held}}}})
}

// Rules 12 and 15: a repeat, or a late first attempt, finds nothing to do.
func TestRule12AHandoffLeavesNothingForARepeat(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		next := p.handoff(g, successor(bob, "write"), Granted)
		p.noHandoff(g, increment, successor(bob, "write"))
		p.release(next, Released)
		p.noHandoff(g, increment, successor(bob, "write"))
	})
}

// Rule 16: a waiter keeps its place, and a waiter that has left is never made
// again.
func TestRule16AWaitingSuccessorIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	waiting := func(g Grant) Successor { return Successor{Request: Request{ID: g.ID, Tag: g.Tag}, Waiting: true} }

	g := p.acquire(ann, "write", Granted)
	b := p.acquire(bob, "write", Waiting)
	c := p.acquire(cid, "write", Waiting)
	w.at(second)
	b = p.handoff(g, waiting(b), Granted)
	w.is(stored{fence: n0 + 1000, tags: rows{"write": {
		{id: cid, seq: n0 + 2, expires: waits},
		{id: bob, seq: n0 + 1, fence: n0 + 1000, expires: second + held},
	}}})

	p.acquire(dan, "write", Waiting)
	d := p.Grant(p.read(b), Request{Tag: "write", ID: dan})
	p.handoff(b, waiting(d), Waiting) // cid comes first
	if img := p.read(c); len(img.Lock.Entries) != 2 {
		t.Errorf("the entries are %+v", img.Lock.Entries)
	}

	c = p.confirm(c, Granted)
	p.release(d, Released)
	p.handoff(c, waiting(d), Lost)
	w.is(stored{fence: n0 + 1002, tags: rows{"write": {}}})
}

// The update, the release and the grant are one command. The successor gets the
// document with the update applied.
func TestWriteAndHandOff(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.write(g, increment, 1, Applied)
		s := Successor{Request: Request{ID: bob, Tag: "write", Document: true}}
		got, err := p.WriteAndHandOff(w.Context(), g, p.parsed(increment), s)
		if err != nil {
			w.Fatal(err)
		}
		var doc struct{ Count int }
		if err := p.Decode(got.Image, &doc); err != nil || doc.Count != 2 {
			w.Errorf("the successor's document is %+v, %v", doc, err)
		}
		w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held}}}, done: []uuid.UUID{ann}})
		p.noHandoff(g, increment, s) // the repeat
		w.counts(2)
		p.write(p.Grant(got.Image, Request{Tag: "write", ID: bob}), increment, 1, Applied) // checked against its own numbers
		w.counts(3)
	})
}

// Rule 17: a classic update is piggybacked only if no entry has come since the
// grant, and the successor gets no more time than the lease had left.
func TestRule17CompareAndSet(t *testing.T) {
	t.Parallel()
	classic := increments["classic"]
	t.Run("another entry came", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.ReadPreferring())
		g := p.acquire(ann, "read", Granted)
		p.acquire(bob, "read", Granted)
		before := w.Stored()
		h := successor(cid, "read")
		if got, err := p.WriteAndHandOff(t.Context(), g, p.parsed(classic), h); got.Outcome != Lost || got.Image != nil || err != nil {
			t.Errorf("%v, %v, %v", got.Outcome, got.Image, err)
		}
		if after := w.Stored(); after.String() != before.String() {
			t.Errorf("made %v of %v", after, before)
		}
	})
	t.Run("the expiry stays", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.at(second)
		p.writeAndHandOff(g, classic, successor(bob, "write"), Granted)
		w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: bob, seq: n0 + 1, fence: n0 + 1, since: second, expires: held}}}, done: []uuid.UUID{ann}})
	})
	t.Run("beside the caller's own operators", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		update := bson.M{"$set": bson.M{"a": 1}, "$unset": bson.M{"text": ""}, "$push": bson.D{{Key: "list", Value: 1}}}
		p.writeAndHandOff(g, update, successor(bob, "write"), Granted)
		doc := w.decoded()
		if doc["a"] != int32(1) || doc["text"] != nil || len(doc["list"].(bson.A)) != 1 {
			t.Errorf("the document is %v", doc)
		}
	})
}

// Rule 17: the update was sent by itself after all, and the handoff comes late.
// The fence has not moved since, but the entry is removed.
func TestRule17ALateHandoffAppliesNothing(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.finish(g, increment, Applied)
		p.noHandoff(g, increment, successor(bob, "write"))
		w.counts(1)
	})
}

func TestRule17WhatPiggybacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	g := p.acquire(ann, "read", Granted)
	company := p.acquire(bob, "read", Granted)
	set := struct {
		Set struct{ A int } `bson:"$set"`
	}{}
	inc := struct {
		Inc struct{ A int } `bson:"$inc"`
	}{}
	waiting := successor(cid, "read")
	waiting.Waiting = true
	for _, c := range []struct {
		name      string
		g         Grant
		update    any
		successor Successor
		can       bool
		inherits  bool
	}{
		{"a classic update", g, increments["classic"], successor(cid, "read"), true, true},
		{"a pipeline", g, increments["pipeline"], successor(cid, "read"), true, false},
		{"a pipeline, in company", company, increments["pipeline"], successor(cid, "write"), true, false},
		{"in company", company, increments["classic"], successor(cid, "read"), false, true},
		{"another tag", g, increments["classic"], successor(cid, "write"), false, true},
		{"a waiting successor", g, increments["classic"], waiting, false, true},
		{"a struct beside the library's $set", g, set, successor(cid, "read"), true, true},
		{"a struct under the library's $set", g, bson.M{"$set": set.Set}, successor(cid, "read"), true, true},
		{"another struct", g, inc, successor(cid, "read"), true, true},
	} {
		can, inherits := p.Piggybacks(c.g, p.parsed(c.update), c.successor)
		if can != c.can || inherits != c.inherits {
			t.Errorf("%s: %v, %v", c.name, can, inherits)
		}
	}
}
