package engine

import (
	"slices"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// removed sends one clean-up and checks what it found.
func (p *peer) removed(pin Pin, ids []uuid.UUID, want ...uuid.UUID) {
	p.Helper()
	p.once("remove", func() {
		found, err := p.Remove(p.Context(), Filter{Pin: pin}, "write", ids)
		if err != nil {
			p.Fatal(err)
		}
		for _, id := range want {
			if !slices.Contains(found, id) {
				p.Errorf("%s was not found", id[:3])
			}
		}
		if len(found) != len(want) {
			p.Errorf("found %d, want %d", len(found), len(want))
		}
	})
}

// The command removes the tag's entries with these ids, held or waiting, and
// nothing else.
func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.acquire(bob, "write", Waiting)
	p.acquire(cid, "write", Waiting)
	p.acquire(dan, "read", Waiting)
	p.untouched("remove", func() { p.removed(g.Pin, []uuid.UUID{ann, cid, dan, eve}, ann, cid) })
	w.is(stored{fence: n0 + 3, tags: rows{
		"write": {{id: bob, seq: n0 + 1, expires: waits}},
		"read":  {{id: dan, seq: n0 + 3, expires: waits}},
	}})
	p.removed(g.Pin, []uuid.UUID{ann, cid, eve})
	w.Delete()
	p.removed(g.Pin, []uuid.UUID{bob})
}

// After an acquire of unknown outcome the document is unknown; only the id is known. Without a pin,
// one document that has the entry is cleaned up, or released.
func TestRemoveAndReleaseWithoutAPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	w.Insert(bson.E{Key: "_id", Value: int32(2)})
	p.acquire(ann, "write", Granted)
	p.removed(nil, []uuid.UUID{bob, ann}, ann)
	w.is(stored{fence: n0, tags: rows{"write": {}}})
	p.acquire(ann, "write", Granted)
	p.release(Grant{Entry: Entry{Tag: "write", ID: ann, Fence: n0 + 1}}, Released)
	w.is(stored{fence: n0 + 1, tags: rows{"write": {}}})
	if n, err := w.Hand.CountDocuments(t.Context(), bson.M{"lock": bson.M{"$exists": true}}); n != 1 || err != nil {
		t.Errorf("%d documents have a lock, %v", n, err)
	}
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
	found, err := p.Remove(t.Context(), Filter{Pin: a.Pin}, "slot", []uuid.UUID{ann, bob})
	if err != nil || len(found) != 1 || found[0] != bob {
		t.Errorf("found %v, %v", found, err)
	}
	w.is(stored{fence: n0 + 1, tags: rows{"slot": {{id: ann, seq: n0, fence: n0, expires: held, key: key, detached: true}}}})
}
