package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The protocol's rules, as far as the engine alone can show them. Each test is
// the trace that breaks without the rule; proptest/mutants removes the rules.
// rules_order_test.go has the rules about the order of waiters.

// Rule 1. Guards, renewals and writes match the id and the fencing token.
// Without it a late duplicate of an acquire revives the id after another
// holder.
func TestRule01GuardMatchesIDAndFence(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		a := p.acquire(ann, "write", Granted)
		w.at(held) // ann's process is stopped
		b := p.acquire(bob, "write", Granted)
		p.finish(b, increment, Applied)
		revived := p.acquire(ann, "write", Granted) // the duplicate of ann's acquire
		if revived.ID != a.ID || revived.Fence <= a.Fence {
			w.Fatalf("revived with fence %d, first granted with %d", revived.Fence, a.Fence)
		}
		p.renew(a, Lost) // ann's process goes on
		p.write(a, increment, 1, Lost)
		p.finish(a, increment, Lost)
		if n, err := w.Hand.CountDocuments(w.Context(), p.Guard(a)); n != 0 || err != nil {
			w.Errorf("the guard matches %d documents, %v", n, err)
		}
		w.counts(1)
		p.release(a, Lost) // and removes the duplicate's entry
		w.is(stored{fence: revived.Fence, tags: rows{"write": {}}, done: []uuid.UUID{bob}})
	})
}

// The other half of rule 1: the fencing token alone is not enough, because
// tokens may repeat after an outside writer erased the lock.
func TestRule01FenceAloneIsNotEnough(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		a := p.acquire(ann, "write", Granted)
		w.Change(bson.M{"$unset": bson.M{"lock": 1}})
		if b := p.acquire(bob, "write", Granted); b.Fence != a.Fence {
			w.Fatalf("fences %d and %d", a.Fence, b.Fence)
		}
		p.renew(a, Lost)
		p.write(a, increment, 1, Lost)
		p.finish(a, increment, Lost)
		p.release(a, Lost)
		w.counts(0)
	})
}

// Rule 2. Extend is a maximum. Without it an older command shortens a lease.
func TestRule02ExtendIsAMaximum(t *testing.T) {
	t.Parallel()
	older := map[string]func(p *peer, g Grant){
		"acquire": func(p *peer, g Grant) { p.acquire(g.ID, g.Tag, Granted) },
		"confirm": func(p *peer, g Grant) { p.confirm(g, Granted) },
		"renew":   func(p *peer, g Grant) { p.renew(g, Renewed) },
	}
	for name, late := range older {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			g := p.acquire(ann, "write", Granted)
			w.at(8 * second)
			p.renew(g, Renewed)
			w.at(2 * second) // a command that was parsed earlier executes later
			late(p, g)
			w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: 8*second + held}}}})
			w.at(15 * second)
			p.acquire(bob, "write", Waiting)
		})
	}
	forked(t, "waiting", func(w *world) {
		p := w.peer(relations.Fair())
		p.acquire(ann, "read", Granted)
		b := p.acquire(bob, "write", Waiting)
		after := stored{fence: n0 + 1, tags: rows{
			"read":  {{id: ann, seq: n0, fence: n0, expires: held}},
			"write": {{id: bob, seq: n0 + 1, expires: 3*second + waits}},
		}}
		w.at(3 * second)
		p.confirm(b, Waiting)
		w.is(after)
		w.at(second)
		p.confirm(b, Waiting)
		p.acquire(bob, "write", Waiting)
		w.is(after)
	})
}

// Rule 3. A repeat that finds its entry held extends it. Without it the second
// attempt is answered, but the expiry is the first attempt's.
func TestRule03RepeatExtends(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(p *peer, g Grant){
		"acquire": func(p *peer, g Grant) { p.acquire(ann, "write", Granted) },
		"confirm": func(p *peer, g Grant) { p.confirm(g, Granted) },
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			g := p.acquire(ann, "write", Granted) // the answer is lost
			w.at(6 * second)
			command(p, g) // ann's lease is valid until 16 s at most
			w.at(16 * second)
			p.try(bob, "write", Conflict)
		})
	}
}

// Rule 5. Grants prune. Without it an expired guard passes beside a new holder.
func TestRule05GrantsPrune(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(p *peer, g Grant){
		"acquire": func(p *peer, _ Grant) { p.acquire(bob, "write", Granted) },
		"try":     func(p *peer, _ Grant) { p.try(bob, "write", Granted) },
		"confirm": func(p *peer, g Grant) { p.confirm(g, Granted) },
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			a := p.acquire(ann, "read", Granted)
			b := a
			if name == "confirm" {
				b = p.acquire(bob, "write", Waiting)
			}
			w.at(held)
			p.renewWouldFind(a) // no other holder was let in yet
			enter(p, b)
			p.write(a, bson.M{"$set": bson.M{"text": "from ann, beside bob"}}, 1, Lost)
			p.release(a, Lost)
			w.fieldIs("text", "hello")
		})
	}
}

// renewWouldFind checks that the guard still matches.
func (p *peer) renewWouldFind(g Grant) {
	p.Helper()
	if n, err := p.Hand.CountDocuments(p.Context(), p.Guard(g)); n != 1 || err != nil {
		p.Fatalf("the guard matches %d documents, %v", n, err)
	}
}

// Rule 14. A write is numbered in its entry. Without it a repeat is applied
// twice; with the numbers in a short shared list, the first write repeats nine
// writes later.
func TestRule14WritesAreNumberedInTheEntry(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.write(g, increment, 1, Applied)
		p.write(g, increment, 1, Lost)
		w.counts(1)
		for k := int64(2); k <= 1+DoneCap+1; k++ {
			p.write(g, increment, k, Applied)
		}
		p.renew(g, Renewed)
		p.write(g, increment, 1, Lost) // very late
		w.counts(1 + DoneCap + 1)
		if own, _ := p.read(g).Lock.Find("write", ann); own.Writes != 1+DoneCap+1 {
			w.Errorf("the entry is %+v", own)
		}
	})
}

// A failed attempt may leave a number unused.
func TestRule14NumbersMayBeLeftOut(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		p.write(g, increment, 3, Applied)
		p.write(g, increment, 2, Lost)
		p.write(g, increment, 1<<40, Applied)
		w.counts(2)
	})
}

// Rule 18. Absence from done proves "not applied" only while the id that was
// newest in the grant's image is still there. The engine provides the images
// for this decision.
func TestRule18DoneAndItsNewest(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Rules{"read": {}})
		for i := range 3 {
			p.finish(p.acquire(named(fmt.Sprint("early ", i)), "read", Granted), increment, Applied)
		}
		a := p.acquire(ann, "read", Granted)
		if a.LastDone != named("early 2") {
			w.Fatalf("the newest in done is %q", a.LastDone[:])
		}
		for i := range DoneCap {
			img := p.read(a)
			if !img.Lock.FinishedBy(a.LastDone) || img.Lock.FinishedBy(ann) {
				w.Fatalf("after %d others: done is %v", i, img.Lock.Done)
			}
			p.finish(p.acquire(named(fmt.Sprint("late ", i)), "read", Granted), increment, Applied)
		}
		if img := p.read(a); img.Lock.FinishedBy(a.LastDone) || len(img.Lock.Done) != DoneCap {
			w.Fatalf("after %d others: done is %v", DoneCap, img.Lock.Done)
		}
		p.finish(a, increment, Applied)
		if img := p.read(a); !img.Lock.FinishedBy(ann) || img.Lock.Fence < a.Fence {
			w.Fatalf("after ann: %+v", img.Lock)
		}
	})
}

// The trace of rule 18: the lock was erased, and the verdict is "not applied".
// The erased lock shows a fence below the lease's.
func TestRule18ErasedLockShowsInTheFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	w.at(second)
	a := p.acquire(ann, "write", Granted)
	p.finish(a, increments["classic"], Applied)
	w.Change(bson.M{"$unset": bson.M{"lock": 1}})
	if img := p.read(a); img.Lock.FinishedBy(ann) || img.Lock.Fence >= a.Fence {
		t.Errorf("erased: %+v", img.Lock)
	}
	// Once the clock has moved on, the fences have too, even after a deletion.
	w.at(2 * second)
	if b := p.acquire(bob, "write", Granted); b.Fence <= a.Fence {
		t.Errorf("fence %d after %d", b.Fence, a.Fence)
	}
}

// Rule 19. Ids are never used again. Without it a late command grants, or here
// releases, the reused id. Two leases of one owner have different ids and don't
// affect each other.
func TestRule19IDsAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	first := p.acquire(ann, "read", Granted)
	next := p.acquire(bob, "read", Granted) // the same owner, a new id
	p.release(first, Released)
	before := w.Stored()
	p.release(first, Lost) // the duplicate of the release
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a late release made %v of %v", after, before)
	}
	p.renew(next, Renewed)

	reused := p.acquire(ann, "read", Granted) // this must not be done
	p.release(first, Lost)
	p.renew(reused, Lost)
}
