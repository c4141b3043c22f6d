package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Rule 25: HoldAtLeast is a time that the grant writes down.

// least is how long others are kept out in these tests, and until is the time
// that a grant at the epoch writes down.
const (
	least = 30 * time.Second
	until = least + extra
)

// keeping acquires with HoldAtLeast.
func (p *peer) keeping(id uuid.UUID, tag string, least time.Duration, want Outcome) Grant {
	p.Helper()
	return p.granted(Request{Tag: tag, ID: id, Terms: Terms{Least: least}}, want)
}

// remainder is the id of the only entry of the tag, which is none of those that
// were acquired.
func (w *world) remainder(tag string) uuid.UUID {
	w.Helper()
	field, _ := w.Stored().LookupErr(DefaultField)
	lock, err := parseLock(field)
	if err != nil || len(lock.Entries) != 1 || lock.Entries[0].Tag != tag {
		w.Fatalf("the lock is %+v, %v", lock, err)
	}
	id := lock.Entries[0].ID
	for _, other := range []uuid.UUID{ann, bob, cid, dan, eve, uuid.Nil} {
		if id == other {
			w.Fatalf("the remainder has the id %q", id[:3])
		}
	}
	return id
}

// The grant writes the time down, by the server's clock, and the entry lives at
// least until then. A repeat and a renewal leave the time, and never shorten the
// entry's life.
func TestRule25TheGrantWritesTheTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ least, expires time.Duration }{
		"longer than the TTL":  {least, until},
		"shorter than the TTL": {second, held},
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			g := p.keeping(ann, "write", c.least, Granted)
			entry := row{id: ann, seq: n0, fence: n0, expires: c.expires, until: c.least + extra}
			w.is(stored{fence: n0, tags: rows{"write": {entry}}})
			if !g.Until.Equal(epoch.Add(c.least + extra)) {
				w.Errorf("the grant has %v", g.Until)
			}
			w.at(2 * second)
			entry.expires = max(entry.expires, 2*second+held)
			p.renew(g, Renewed)
			p.keeping(ann, "write", c.least, Granted) // a repeat
			p.ask(g, Request{Tag: "write", ID: ann, Terms: Terms{Least: c.least}}, Granted)
			w.is(stored{fence: n0, tags: rows{"write": {entry}}})
		})
	}
}

// The time of a waiting entry counts from its grant, not from its arrival.
func TestRule25TheTimeCountsFromTheGrant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ least, expires time.Duration }{
		"longer than the TTL":  {least, second + until},
		"shorter than the TTL": {second, second + held},
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			first := p.acquire(ann, "write", Granted)
			r := Request{Tag: "write", ID: bob, Terms: Terms{Least: c.least}}
			g := p.granted(r, Waiting)
			w.is(stored{fence: n0 + 1, tags: rows{"write": {
				{id: ann, seq: n0, fence: n0, expires: held}, {id: bob, seq: n0 + 1, expires: waits},
			}}})
			p.ask(g, r, Waiting)
			p.release(first, Released)
			w.at(second)
			p.ask(g, r, Granted)
			entry := row{id: bob, seq: n0 + 1, fence: n0 + 1000, expires: c.expires, until: second + c.least + extra}
			w.is(stored{fence: n0 + 1000, tags: rows{"write": {entry}}})
			w.at(2 * second)
			p.ask(g, r, Granted) // a repeat extends, and leaves the time
			entry.expires = max(entry.expires, 2*second+held)
			w.is(stored{fence: n0 + 1000, tags: rows{"write": {entry}}})
		})
	}
}

// leavings are the commands that release the lock.
var leavings = map[string]func(*peer, Grant){
	"release":                     func(p *peer, g Grant) { p.release(g, Released) },
	"write and release, classic":  func(p *peer, g Grant) { p.finish(g, increments["classic"], Applied) },
	"write and release, pipeline": func(p *peer, g Grant) { p.finish(g, increments["pipeline"], Applied) },
	"handoff":                     func(p *peer, g Grant) { p.handoff(g, successor(bob, "write"), Conflict) },
	"write and hand off": func(p *peer, g Grant) {
		p.writeAndHandOff(g, increments["pipeline"], successor(bob, "write"), Conflict)
	},
}

// Every command that releases leaves a remainder until the time: under a new id,
// without key, detached and n. Nobody is let in before, and anybody after. The
// holder's own commands find nothing any more.
func TestRule25ReleasesLeaveARemainder(t *testing.T) {
	t.Parallel()
	for name, leave := range leavings {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Exclusive())
			g := p.keeping(ann, "write", least, Granted)
			p.write(g, increments["classic"], 1, Applied)
			w.Change(bson.M{"$set": bson.M{"lock.tags.write.0.key": binaryID(eve), "lock.tags.write.0.detached": true}})
			p.renew(g, Renewed)
			w.at(second)
			leave(p, g)
			rest := w.remainder("write")
			want := stored{fence: n0, tags: rows{"write": {{id: rest, seq: n0, fence: n0, expires: until, until: until}}}}
			if name != "release" && name != "handoff" {
				want.done = []uuid.UUID{ann}
				w.counts(2)
			}
			w.is(want)

			p.renew(g, Lost)
			p.release(g, Lost)
			p.finish(g, increments["classic"], Lost)
			p.noHandoff(g, increments["pipeline"], successor(bob, "write"))
			w.is(want)
			w.at(until - time.Millisecond)
			img := p.arrive(Request{Tag: "write", ID: cid}, Conflict)
			if entries, free := p.InTheWay(img, "write", nil); len(entries) != 1 || entries[0].ID != rest || free != time.Millisecond {
				w.Errorf("in the way: %+v, for %v", entries, free)
			}
			w.at(until)
			p.acquire(cid, "write", Granted)
		})
	}
}

// After the time a release removes the entry. Only the classic update can't
// compare it with the clock, and makes a remainder that has expired.
func TestRule25NoRemainderAfterTheTime(t *testing.T) {
	t.Parallel()
	for name, leave := range leavings {
		if name == "handoff" || name == "write and hand off" {
			continue // below
		}
		forked(t, name, func(w *world) {
			p := w.peer(relations.Exclusive())
			g := p.keeping(ann, "write", second, Granted)
			w.at(second + extra)
			leave(p, g)
			if name == "write and release, classic" {
				rest := w.remainder("write")
				w.is(stored{fence: n0, tags: rows{"write": {{id: rest, seq: n0, fence: n0, expires: second + extra, until: second + extra}}}, done: []uuid.UUID{ann}})
			} else if entries := p.read(g).Lock.Entries; len(entries) != 0 {
				w.Errorf("there is %+v", entries)
			}
			p.acquire(bob, "write", Granted)
		})
	}
	forked(t, "handoff", func(w *world) {
		p := w.peer(relations.Exclusive())
		g := p.keeping(ann, "write", second, Granted)
		w.at(second + extra)
		next := p.handoff(g, successor(bob, "write"), Granted)
		if !next.Until.IsZero() {
			w.Errorf("the successor inherits %v", next.Until)
		}
	})
}

// A remainder is kept beside other entries, and touches none of them.
func TestRule25ARemainderBesideOthers(t *testing.T) {
	t.Parallel()
	for name, leave := range leavings {
		if name == "handoff" || name == "write and hand off" {
			continue
		}
		forked(t, name, func(w *world) {
			p := w.peer(relations.Semaphore(3))
			a := p.acquire(ann, "slot", Granted)
			g := p.keeping(bob, "slot", least, Granted)
			p.write(a, increments["classic"], 1, Applied)
			leave(p, g)
			p.renew(a, Renewed)
			p.acquire(cid, "slot", Granted)
			p.try(dan, "slot", Conflict) // the remainder takes a place
			w.at(until)
			p.acquire(dan, "slot", Granted)
		})
	}
}

// An id that a late duplicate of the acquire brought back is removed, and leaves
// no remainder: nobody held it. A token's entry is not removed by another
// fencing token.
func TestRule25WhatNobodyHeldLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.keeping(ann, "write", second, Granted)
	w.at(held)
	p.release(p.acquire(bob, "write", Granted), Released)
	revived := p.keeping(ann, "write", least, Granted) // the duplicate
	p.release(g, Lost)
	w.is(stored{fence: revived.Fence, tags: rows{"write": {}}})

	resumed := p.keeping(ann, "write", least, Granted)
	w.Change(bson.M{"$set": bson.M{"lock.tags.write.0.key": binaryID(eve)}})
	before := w.Stored()
	p.release(g, Lost)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("made %v of %v", after, before)
	}
	p.removed(resumed.Pin, []uuid.UUID{ann})
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a clean-up made %v of %v", after, before)
	}
}

// The clean-up removes an entry whatever its time is, and leaves no remainder.
func TestRule25ACleanUpLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.keeping(ann, "write", least, Granted)
	p.removed(g.Pin, []uuid.UUID{ann, bob}, ann)
	w.is(stored{fence: n0, tags: rows{"write": {}}})
}

// A release of an entry with a time changes no field that is not a lock of ours.
func TestRule25AReleaseLeavesForeignFields(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]any{
		"a document for an array": bson.M{"tags": bson.M{"write": bson.M{"id": binaryID(ann)}}},
		"odd entries":             bson.M{"tags": bson.M{"write": bson.A{1, nil, bson.M{"id": 1}, bson.A{bson.M{"id": binaryID(ann)}}}}},
		"a text":                  "mine",
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Exclusive())
			g := p.keeping(ann, "write", least, Granted)
			w.Change(bson.M{"$set": bson.M{"lock": field}})
			before := w.Stored()
			p.release(g, Lost)
			if after := w.Stored(); !bytes.Equal(before, after) {
				w.Errorf("made %v of %v", after, before)
			}
		})
	}
}
