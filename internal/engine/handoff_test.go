package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func heir(id uuid.UUID, tag string) Heir { return Heir{Request: Request{ID: id, Tag: tag}} }

func TestHandoffGrantsTheHeir(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
	w.at(second)
	next := p.handoff(g, heir(bob, "write"), Granted)
	if next.Fence != n0+1000 || next.Seq != n0+1000 || next.Alone != next.Fence {
		t.Errorf("the heir's grant is %+v", next)
	}
	w.is(stored{fence: n0 + 1000, tags: rows{"write": {
		{id: bob, seq: n0 + 1000, fence: n0 + 1000, since: second, expires: second + held},
	}}})
}

// A handoff that is not possible is a release, and leaves nothing of the heir.
func TestRule15AnHeirThatIsRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	p.acquire(bob, "read", Granted)
	g := p.acquire(ann, "read", Granted)
	next := p.handoff(g, heir(cid, "write"), Conflict)
	if next.Fence != 0 {
		t.Errorf("the heir's grant is %+v", next)
	}
	w.is(stored{fence: n0 + 1, tags: rows{"read": {{id: bob, seq: n0, fence: n0, expires: held}}}})
}

// In a table that queues, whoever waits in the document comes first.
func TestRule15AnHeirLeavesNoWaiter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.acquire(bob, "write", Waiting)
	p.handoff(g, heir(cid, "write"), Conflict)
	w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: bob, seq: n0 + 1, expires: waits}}}})
}

func TestHandoffBetweenTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	g := p.acquire(ann, "write", Granted)
	r := p.handoff(g, heir(bob, "read"), Granted)
	if r.Tag != "read" || r.Fence != n0+1 {
		t.Errorf("the heir's grant is %+v", r)
	}
	p.handoff(r, heir(cid, "write"), Granted)
	w.is(stored{fence: n0 + 2, tags: rows{"write": {{id: cid, seq: n0 + 2, fence: n0 + 2, expires: held}}}})
}

// Rule 1: a late duplicate of an acquire, with the old id and another token,
// hands nothing over, and nor does a repeat.
func TestRule01HandoffMatchesTheFence(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.at(held)
		p.release(p.acquire(bob, "write", Granted), Released)
		p.acquire(ann, "write", Granted) // the duplicate
		p.noHandoff(g, increment, heir(cid, "write"))
	})
}

// The other half of rule 1: tokens may come again after somebody erased the
// lock.
func TestRule01HandoffMatchesTheID(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		w.Change(bson.M{"$unset": bson.M{"lock": 1}})
		if b := p.acquire(bob, "write", Granted); b.Fence != g.Fence {
			w.Fatalf("tokens %d and %d", g.Fence, b.Fence)
		}
		p.noHandoff(g, increment, heir(cid, "write"))
	})
}

// Rule 5: the heir's grant prunes like any other.
func TestRule05HandoffPrunes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(2))
	p.acquire(ann, "slot", Granted)
	w.at(second)
	g := p.acquire(bob, "slot", Granted)
	w.at(held) // ann's is over
	p.handoff(g, heir(cid, "slot"), Granted)
	n := n0 + held.Milliseconds()
	w.is(stored{fence: n, tags: rows{"slot": {{id: cid, seq: n, fence: n, since: held, expires: 2 * held}}}})
}

// Rules 12 and 15: nothing is left for a repeat, nor for a late first attempt.
func TestRule12AHandoffLeavesNothingForARepeat(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		next := p.handoff(g, heir(bob, "write"), Granted)
		p.noHandoff(g, increment, heir(bob, "write"))
		p.release(next, Released)
		p.noHandoff(g, increment, heir(bob, "write"))
	})
}

// Rule 16: a waiter keeps its place, and one that has gone is never made again.
func TestRule16AWaitingHeirIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	waiting := func(g Grant) Heir { return Heir{Request: Request{ID: g.ID, Tag: g.Tag}, Waiting: true} }

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
	d := p.Grant(p.read(b), "write", dan)
	p.handoff(b, waiting(d), Waiting) // cid comes first
	if img := p.read(c); len(img.Lock.Entries) != 2 {
		t.Errorf("the entries are %+v", img.Lock.Entries)
	}

	c = p.confirm(c, Granted)
	p.release(d, Released)
	p.handoff(c, waiting(d), Lost)
	w.is(stored{fence: n0 + 1002, tags: rows{"write": {}}})
}

// The update, the release and the grant are one command, and the heir gets the
// document as the update left it.
func TestWriteAndHandOff(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.write(g, increment, 1, Applied)
		h := Heir{Request: Request{ID: bob, Tag: "write", Document: true}}
		_, img, err := p.WriteAndHandOff(w.Context(), g, p.parsed(increment), &h)
		if err != nil {
			w.Fatal(err)
		}
		var got struct{ Count int }
		if err := p.Decode(img, &got); err != nil || got.Count != 2 {
			w.Errorf("the heir's document is %+v, %v", got, err)
		}
		w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held}}}, done: []uuid.UUID{ann}})
		p.noHandoff(g, increment, h) // the repeat
		w.counts(2)
		p.write(p.Grant(img, "write", bob), increment, 1, Applied) // judged by its own numbers
		w.counts(3)
	})
}

// Rule 17: a classic update rides only where nobody has come since the grant,
// and the heir gets no more time than the lease had.
func TestRule17CompareAndSet(t *testing.T) {
	t.Parallel()
	classic := increments["classic"]
	t.Run("somebody came", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.ReadPreferring())
		g := p.acquire(ann, "read", Granted)
		p.acquire(bob, "read", Granted)
		before := w.Stored()
		h := heir(cid, "read")
		if outcome, img, err := p.WriteAndHandOff(t.Context(), g, p.parsed(classic), &h); outcome != Lost || img != nil || err != nil {
			t.Errorf("%v, %v, %v", outcome, img, err)
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
		p.bequeath(g, classic, heir(bob, "write"), Granted)
		w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: bob, seq: n0 + 1, fence: n0 + 1, since: second, expires: held}}}, done: []uuid.UUID{ann}})
	})
	t.Run("beside the caller's own operators", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		update := bson.M{"$set": bson.M{"a": 1}, "$unset": bson.M{"text": ""}, "$push": bson.D{{Key: "list", Value: 1}}}
		p.bequeath(g, update, heir(bob, "write"), Granted)
		doc := w.decoded()
		if doc["a"] != int32(1) || doc["text"] != nil || len(doc["list"].(bson.A)) != 1 {
			t.Errorf("the document is %v", doc)
		}
	})
}

// Rule 17: the update went by itself after all, and the handoff comes late. The
// number has not moved since, but the entry is gone.
func TestRule17ALateHandoffAppliesNothing(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.finish(g, increment, Applied)
		p.noHandoff(g, increment, heir(bob, "write"))
		w.counts(1)
	})
}

func TestRule17WhatRides(t *testing.T) {
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
	waiting := heir(cid, "read")
	waiting.Waiting = true
	for _, c := range []struct {
		name     string
		g        Grant
		update   any
		heir     Heir
		rides    bool
		inherits bool
	}{
		{"a classic update", g, increments["classic"], heir(cid, "read"), true, true},
		{"a pipeline", g, increments["pipeline"], heir(cid, "read"), true, false},
		{"a pipeline, in company", company, increments["pipeline"], heir(cid, "write"), true, false},
		{"in company", company, increments["classic"], heir(cid, "read"), false, true},
		{"another tag", g, increments["classic"], heir(cid, "write"), false, true},
		{"a waiting heir", g, increments["classic"], waiting, false, true},
		{"a struct beside the library's $set", g, set, heir(cid, "read"), true, true},
		{"a struct under the library's $set", g, bson.M{"$set": set.Set}, heir(cid, "read"), true, true},
		{"another struct", g, inc, heir(cid, "read"), true, true},
	} {
		rides, inherits := p.Rides(c.g, p.parsed(c.update), &c.heir)
		if rides != c.rides || inherits != c.inherits {
			t.Errorf("%s: %v, %v", c.name, rides, inherits)
		}
	}
}
