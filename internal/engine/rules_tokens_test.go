package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Rule 23, as far as the engine alone can show it.

// Detach matches the id and the fencing token. Without it a late acquire brings
// the id back after another holder, and the token is another lease's.
func TestRule23DetachMatchesIDAndFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	a := p.acquire(ann, "write", Granted)
	w.at(held)
	b := p.acquire(bob, "write", Granted)
	p.release(b, Released)
	p.acquire(ann, "write", Granted) // the duplicate of ann's acquire
	p.gone(p.detach(a, Lost))
}

// Detach extends. Without it the token is worth nothing when it arrives.
func TestRule23DetachExtends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	a := p.acquire(ann, "write", Granted)
	w.at(held - second)
	k := p.detach(a, Detached)
	w.at(held)
	p.try(bob, "write", Conflict)
	p.resume(k, cid)
}

// Detach extends by a maximum, and so do resume and touch (rule 2).
func TestRule23TokensNeverShorten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	w.at(2 * second)
	a := p.acquire(ann, "write", Granted)
	want := row{id: ann, seq: n0 + 2000, fence: n0 + 2000, since: 2 * second, expires: 2*second + held, key: key, detached: true}
	w.at(second) // a command that was parsed earlier executes later
	k := p.detach(a, Detached)
	p.touch(k)
	w.is(stored{fence: n0 + 2000, tags: rows{"write": {want}}})
	p.resume(k, bob)
	p.resume(k, bob)
	want.id, want.fence, want.detached = bob, n0+2001, false
	w.is(stored{fence: n0 + 2001, tags: rows{"write": {want}}})
}

// Resume gives a new id. Without it two users that end by a write have one id in
// `done`, and the first one's attempt, which came too late, is reported as
// applied.
func TestRule23ResumeGivesANewID(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		k := p.detach(p.acquire(ann, "write", Granted), Detached)
		first := p.resume(k, bob)
		second := p.resume(k, cid)
		p.finish(second, increment, Applied)
		p.finish(first, increment, Lost)
		lock := p.read(first).Lock
		if lock.FinishedBy(first.ID) || !lock.FinishedBy(second.ID) {
			w.Errorf("done is %v", lock.Done)
		}
		w.counts(1)
	})
}

// Resume gives a new fencing token and raises lock.fence. Without it two handles
// have the same fencing token, or a handle and the next holder have.
func TestRule23ResumeGivesANewFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	a := p.acquire(ann, "write", Granted)
	k := p.detach(a, Detached)
	first := p.resume(k, bob)
	p.detach(first, Detached)
	second := p.resume(k, cid)
	p.release(second, Released)
	next := p.acquire(dan, "write", Granted)
	if fences := []int64{a.Fence, first.Fence, second.Fence, next.Fence}; fences[0] >= fences[1] || fences[1] >= fences[2] || fences[2] >= fences[3] {
		t.Errorf("the fencing tokens are %v", fences)
	}
}

// Resume removes the number. Without it both users number their write 1, and the
// second is taken for a repeat of the first.
func TestRule23ResumeRemovesTheNumber(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		k := p.detach(p.acquire(ann, "write", Granted), Detached)
		first := p.resume(k, bob)
		p.write(first, increment, 1, Applied)
		p.write(p.resume(k, cid), increment, 1, Applied)
		w.counts(2)
	})
}

// A write of unknown outcome of a handle that detached is applied at most once,
// and not after a resume.
func TestRule23LateWriteAfterADetach(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		a := p.acquire(ann, "write", Granted)
		k := p.detach(a, Detached)
		p.write(a, increment, 1, Applied)
		p.write(a, increment, 1, Lost)
		p.resume(k, bob)
		p.write(a, increment, 2, Lost)
		w.counts(1)
	})
}

// An entry with a key is removed by its last handle only. Without it a late
// resume brings the first user's id back, and that user's release, by id, ends
// the lock of the others.
func TestRule23LateResumeIsReleasedByItsLastHandleOnly(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Exclusive())
		k := p.detach(p.acquire(ann, "write", Granted), Detached)
		first := p.resume(k, bob)
		second := p.resume(k, cid)
		p.resume(k, bob) // a late duplicate of the first
		for _, g := range []Grant{first, second} {
			p.write(g, increment, 1, Lost)
			p.finish(g, increment, Lost)
			p.renew(g, Lost)
			p.detach(g, Lost)
			p.release(g, Lost)
		}
		third := p.resume(k, dan)
		p.write(third, increment, 1, Applied)
		p.try(eve, "write", Conflict)
		p.release(third, Released)
		p.gone(k)
	})
}

// The clean-up of an acquire spares the lock that was detached.
func TestRule23CleanUpSparesEntriesWithAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	a := p.acquire(ann, "write", Granted)
	k := p.detach(a, Detached)
	p.removed(a.Pin, []uuid.UUID{ann})
	p.resume(k, bob)
	p.removed(a.Pin, []uuid.UUID{bob})
	p.touch(k)
}

// The clean-up finds the entries without a key beside those with one.
func TestRule23CleanUpBesideATokensEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(3))
	a := p.acquire(ann, "slot", Granted)
	p.acquire(bob, "slot", Granted)
	p.detach(a, Detached)
	found, err := p.Remove(t.Context(), a.Pin, "slot", []uuid.UUID{ann, bob})
	if err != nil || len(found) != 1 || found[0] != bob {
		t.Errorf("found %v, %v", found, err)
	}
	w.is(stored{fence: n0 + 1, tags: rows{"slot": {{id: ann, seq: n0, fence: n0, expires: held, key: key, detached: true}}}})
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
			p.gone(k)
			if next.Key != uuid.Nil {
				w.Errorf("the successor's key is %v", next.Key)
			}
			p.release(next, Released)
		})
	}
}
