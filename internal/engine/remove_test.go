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
		found, err := p.Remove(p.Context(), pin, "write", ids)
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

// Without a pin, one document that has one of the entries is cleaned up.
func TestRemoveWithoutAPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	w.Insert(bson.E{Key: "_id", Value: int32(2)})
	p.acquire(ann, "write", Granted)
	p.removed(nil, []uuid.UUID{bob, ann}, ann)
	w.is(stored{fence: n0, tags: rows{"write": {}}})
}
