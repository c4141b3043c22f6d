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
	t.Run("the entry is another", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		fence, id := g, g
		fence.Fence, id.ID = g.Fence-1, cid
		for _, stale := range []Grant{fence, id} {
			p.noHandoff(stale, classic, successor(bob, "write"))
		}
	})
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
	t.Run("beside the caller's own operators", func(t *testing.T) {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		update := bson.M{"$set": bson.M{"a": 1}, "$unset": bson.M{"text": ""}, "$push": bson.D{{Key: "list", Value: 1}}}
		s := successor(bob, "write")
		s.Terms.Owner = "a job"
		w.at(second)
		p.writeAndHandOff(g, update, s, Granted)
		w.is(stored{fence: n0 + 1, tags: rows{"write": {
			{id: bob, owner: "a job", seq: n0 + 1, fence: n0 + 1, since: second, expires: held}, // ann's time
		}}, done: []uuid.UUID{ann}})
		doc := w.decoded()
		if doc["a"] != int32(1) || doc["text"] != nil || len(doc["list"].(bson.A)) != 1 {
			t.Errorf("the document is %v", doc)
		}
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

// A successor does not inherit the key. Without it the token resumes the lock of
// another holder.
func TestRule23SuccessorsHaveNoKey(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(*peer, Grant) Grant{
		"handoff": func(p *peer, g Grant) Grant {
			return p.handoff(g, Successor{Request: Request{Tag: "write", ID: dan}}, Granted)
		},
		"compare-and-set": func(p *peer, g Grant) Grant {
			return p.writeAndHandOff(g, bson.M{"$set": bson.M{"x": 1}}, Successor{Request: Request{Tag: "write", ID: dan}}, Granted)
		},
		"pipeline": func(p *peer, g Grant) Grant {
			return p.writeAndHandOff(g, bson.A{bson.M{"$set": bson.M{"x": 1}}}, Successor{Request: Request{Tag: "write", ID: dan}}, Granted)
		},
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Exclusive())
			k := p.detach(p.acquire(ann, "write", Granted), Detached)
			next := pass(p, p.resume(k, bob))
			p.gone(k, Lost)
			if next.Key != uuid.Nil {
				w.Errorf("the successor's key is %v", next.Key)
			}
			p.release(next, Released)
		})
	}
}
