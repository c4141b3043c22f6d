package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
)

var (
	cooperative = relations.Relation{Kind: relations.Cooperative}
	assertive   = relations.Relation{Kind: relations.Assertive}
)

// The rules that a short run of proptest/machine doesn't surely show broken; that
// package shows the others, in lockstep with the model.

// Rule 6. A confirm is blocked by cooperative relations too. Without it a
// waiter is granted beside a holder that ignores it.
func TestRule06ConfirmRespectsCooperative(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Rules{
		"read":   {},
		"upkeep": {}, // ignores a waiting write
		"write":  {"read": assertive, "upkeep": cooperative},
	})
	a := p.acquire(ann, "read", Granted)
	b := p.acquire(bob, "write", Waiting)
	c := p.acquire(cid, "upkeep", Granted)
	p.release(a, Released)
	p.confirm(b, Waiting)
	p.release(c, Released)
	p.confirm(b, Granted)
}

// Rule 9. Held or earlier, unknown tags block a confirm. Without it an unknown
// tag that arrives during the wait is overlooked.
func TestRule09UnknownTagsBlockConfirms(t *testing.T) {
	t.Parallel()
	ours := relations.Fair()
	theirs := relations.Rules{
		"read": ours["read"], "write": ours["write"],
		"audit": {},                                      // ignores all tags
		"index": {"read": assertive, "index": assertive}, // ignores a waiting write
	}
	forked(t, "held", func(w *world) {
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		b := we.acquire(bob, "write", Waiting)
		c := they.acquire(cid, "audit", Granted)
		we.release(a, Released)
		img := we.ask(b, Request{Tag: "write", ID: bob}, Waiting)
		own, _ := img.Lock.Find("write", bob)
		if entries, free := we.InTheWay(img, "write", &own); len(entries) != 1 || entries[0].ID != cid || free != held {
			w.Errorf("in the way: %+v, for %v", entries, free)
		}
		they.release(c, Released)
		we.confirm(b, Granted)
	})
	forked(t, "waiting, later", func(w *world) {
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		b := we.acquire(bob, "write", Waiting)
		they.acquire(cid, "index", Waiting)
		we.release(a, Released)
		we.confirm(b, Granted)
	})
	forked(t, "waiting, earlier", func(w *world) {
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		c := they.acquire(cid, "index", Waiting)
		b := they.acquire(bob, "write", Waiting) // bob's program will have older rules
		we.release(a, Released)
		we.confirm(b, Waiting)
		they.confirm(c, Granted)
		we.confirm(b, Waiting)
	})
}
