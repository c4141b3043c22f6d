package engine

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// The caller may use array filters, and operators that the library uses too.
func TestWriteWithArrayFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "items", Value: bson.A{bson.M{"n": 1}, bson.M{"n": 5}}}, bson.E{Key: "list", Value: bson.A{"a", "b"}})
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	u, err := p.ParseUpdate(bson.M{"$inc": bson.M{"items.$[big].n": 1}, numbering: bson.M{"high": 9}, "$push": bson.M{"log": "x"}, "$pull": bson.M{"list": "a"}},
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
	w.fieldIs("high", int32(9))
	w.fieldIs("list", bson.A{"b"})
	w.is(stored{fence: n0 + 1, tags: rows{"write": {}}, done: []uuid.UUID{ann, bob}})
}

// renewAll sends one command and checks whether it matched all.
func (p *peer) renewAll(want bool, grants ...Grant) {
	p.Helper()
	p.once("renew all", func() {
		got, err := p.RenewAll(p.Context(), grants)
		if all := got.Outcome == Renewed; err != nil || all != want {
			p.Errorf("renewed all: %v, %v, want %v", all, err, want)
		}
	})
}

// standing sends one command and checks what it finds.
func (p *peer) standing(want map[uuid.UUID]time.Duration, grants ...Grant) {
	p.Helper()
	p.once("standing", func() {
		all, _, err := p.Standing(p.Context(), grants)
		if err != nil {
			p.Error(err)
		}
		got := map[uuid.UUID]time.Duration{}
		for i, s := range all {
			if s.Lost == nil {
				got[grants[i].ID] = s.Left
			} else if lost := *s.Lost; lost.Outcome != Lost || lost.Gone != (lost.Image == nil) {
				p.Errorf("lost: %+v", lost)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			p.Errorf("standing (-want +got):\n%s", diff)
		}
	})
}

// elsewhere makes another document and acquires a lock on it.
func (p *peer) elsewhere(id uuid.UUID, tag string) Grant {
	p.Helper()
	w := p.world
	home := w.ID
	defer func() { w.ID = home }()
	w.Insert(bson.E{Key: "_id", Value: int32(2)})
	return p.acquire(id, tag, Granted)
}

func TestRenewAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	a, b, c := p.acquire(ann, "read", Granted), p.acquire(bob, "read", Granted), p.elsewhere(cid, "write")
	w.at(4 * second)
	p.renewAll(true, a, b, c)
	p.standing(map[uuid.UUID]time.Duration{ann: ttl, bob: ttl, cid: ttl}, a, b, c)
	w.is(stored{fence: n0 + 1, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: 4*second + held},
		{id: bob, seq: n0 + 1, fence: n0 + 1, expires: 4*second + held},
	}}})

	w.at(5 * second) // the holder gets no tolerance
	p.standing(map[uuid.UUID]time.Duration{ann: ttl - second, bob: ttl - second, cid: ttl - second}, a, b, c)
	w.at(3 * second) // the server's clock was set back
	p.standing(map[uuid.UUID]time.Duration{ann: ttl, bob: ttl, cid: ttl}, a, b, c)
}

func TestRenewAllButOne(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"pruned":            func(w *world) { w.Change(bson.M{"$set": bson.M{"lock.tags.read": bson.A{}}}) },
		"another fence":     func(w *world) { w.Change(bson.M{"$inc": bson.M{"lock.tags.read.0.fence": 1}}) },
		"under another tag": func(w *world) { w.Change(bson.M{"$rename": bson.M{"lock.tags.read": "lock.tags.write"}}) },
		"erased":            func(w *world) { w.Change(bson.M{"$unset": bson.M{"lock": ""}}) },
		"foreign":           func(w *world) { w.Change(bson.M{"$set": bson.M{"lock": "mine"}}) },
		"deleted":           func(w *world) { w.Delete() },
		"no collection": func(w *world) {
			if err := w.Hand.Drop(w.Context()); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hello())
			p := w.peer(relations.ReadPreferring())
			a, b := p.acquire(ann, "read", Granted), p.elsewhere(bob, "write")
			lose(w)
			w.at(4 * second)
			p.renewAll(false, a, b)
			left := map[uuid.UUID]time.Duration{bob: ttl}
			if name == "no collection" {
				left = nil
			}
			p.standing(left, a, b)
		})
	}
}

// The lock was copied with its document: the copy proves nothing.
func TestStandingGoesByTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	a, b := p.acquire(ann, "read", Granted), p.elsewhere(bob, "read")
	copied := w.Stored().Lookup("lock", "tags", "read", "0")
	w.Delete()
	if _, err := w.Hand.UpdateOne(t.Context(), bson.M{"_id": 2}, bson.M{"$push": bson.M{"lock.tags.read": copied}}); err != nil {
		t.Fatal(err)
	}
	p.renewAll(false, a, b)
	p.standing(map[uuid.UUID]time.Duration{bob: ttl}, a, b)
}

// Standing finds the entries that the guard matches, whatever else the lock
// field holds.
func TestStandingBesideWhatIsForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	g := p.acquire(ann, "read", Granted)
	w.Change(bson.M{"$set": bson.M{"lock.tags.other": "text"}, "$push": bson.M{"lock.tags.read": 4}})
	p.standing(map[uuid.UUID]time.Duration{ann: ttl}, g)
	p.release(g, Released)
}

// Rule 1 for a delete: the document of another holder is not deleted, not even
// by the same id.
func TestRule01DeleteMatchesIDAndFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	w.at(held)
	next := p.acquire(bob, "write", Granted)
	before := w.Stored()
	stale, other := g, next
	stale.ID, other.ID = bob, cid // with ann's fencing token, and with bob's
	for name, g := range map[string]Grant{"pruned": g, "another fence": stale, "another id": other} {
		if got, err := p.Delete(t.Context(), g); got.Outcome != Lost || err != nil {
			t.Errorf("%s: %v, %v", name, got.Outcome, err)
		}
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("made %v of %v", after, before)
	}
}

// DocumentDB's delete passes over a document that is being updated at that
// moment. That is not a loss.
func TestDeleteBesideUpdates(t *testing.T) {
	t.Parallel()
	for range 8 {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		for range 4 {
			go func() {
				for ctx.Err() == nil {
					_, _ = w.Hand.UpdateOne(context.Background(), bson.M{"_id": w.ID}, bson.M{"$inc": bson.M{"count": 1}})
				}
				done <- struct{}{}
			}()
		}
		for {
			got, err := p.Delete(t.Context(), g)
			if err == nil {
				if got.Outcome != Released {
					t.Errorf("%v, though the lock was held", got.Outcome)
				}
				break
			}
			if AsFailure(err).Cause != CauseRace {
				t.Fatal(err)
			}
		}
		cancel()
		for range 4 {
			<-done
		}
	}
}

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

// A successor gets no mark: the transactions under it were another holder's, and are decided.
func TestWriteAndHandOffTakesTheMark(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		if got, err := p.SetMark(w.Context(), g, Mark{}, Mark{ID: cid, Slots: 1}); err != nil || got.Outcome != Applied {
			w.Fatalf("%v, %v", got.Outcome, err)
		}
		got, err := p.WriteAndHandOff(w.Context(), g, p.parsed(increment), successor(bob, "write"))
		if err != nil {
			w.Fatal(err)
		}
		if own, there := got.Image.Lock.Find("write", bob); !there || own.Mark != (Mark{}) {
			w.Errorf("the successor has %+v", own)
		}
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
	t.Run("the successor has terms of its own", func(t *testing.T) {
		p := newWorld(t, hello()).peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		for _, terms := range []Terms{{TTL: ttl + second}, {Least: second}, {Most: ttl}} {
			s := successor(bob, "write")
			s.Terms = terms
			if can, _ := p.Piggybacks(g, p.parsed(classic), s); can {
				t.Errorf("it gets the rest of the lease, and has asked for %+v", terms)
			}
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

// A mark doesn't take its version from a lock that a newer program has written meanwhile.
func TestMarkKeepsANewerVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	w.Change(bson.M{"$set": bson.M{"lock.v": 3}})
	if got, err := p.SetMark(t.Context(), g, Mark{}, Mark{ID: cid, Slots: 1}); err != nil || got.Outcome != Applied {
		t.Fatal(got.Outcome, err)
	}
	if v, _ := w.Stored().Lookup("lock", "v").AsInt64OK(); v != 3 {
		t.Errorf("v is %d", v)
	}
}
