package engine

import (
	"bytes"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	cooperative = relations.Relation{Kind: relations.Cooperative}
	assertive   = relations.Relation{Kind: relations.Assertive}
)

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

// Rule 7. A confirm never creates an entry. Without it a pruned waiter silently
// rejoins as the last one. (The caller compares the seq with the ticket's: the
// image has it.)
func TestRule07ConfirmNeverCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	b := p.acquire(bob, "write", Waiting)
	w.at(5 * second)
	p.acquire(cid, "read", Granted) // bob was pruned
	before := w.Stored()
	img := p.ask(b, Request{Tag: "write", ID: bob}, Lost)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a confirm made %v of %v", after, before)
	}
	if _, there := img.Lock.Find("write", bob); there {
		t.Errorf("the image has an entry: %+v", img.Lock)
	}

	// A late duplicate of the enqueue brings the id back, as the last entry:
	// the image shows another seq than the ticket's.
	p.acquire(bob, "write", Waiting)
	if again := p.confirm(b, Waiting); again.Seq == b.Seq {
		t.Errorf("seq %d again", again.Seq)
	}
}

// Rule 8. Unknown tags refuse arrivals. Without it two programs with different
// rules are both granted.
func TestRule08UnknownTagsRefuseArrivals(t *testing.T) {
	t.Parallel()
	ours := relations.Fair()
	theirs := relations.Rules{"edit": {"edit": cooperative}}
	for _, try := range []bool{false, true} {
		w := newWorld(t, hello())
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		img := they.arrive(Request{Tag: "edit", ID: bob, Try: try}, Conflict)
		if entries, free := they.InTheWay(img, "edit", nil); len(entries) != 1 || entries[0].ID != ann || free != held {
			t.Errorf("in the way: %+v, for %v", entries, free)
		}
		we.release(a, Released)
		b := they.acquire(bob, "edit", Granted)
		we.arrive(Request{Tag: "write", ID: ann, Try: try}, Conflict)
		w.at(held) // an expired entry refuses no arrival
		we.arrive(Request{Tag: "write", ID: ann, Try: try}, Granted)
		they.release(b, Lost)
	}
}

// An unknown tag refuses even if its entry is waiting.
func TestRule08UnknownWaitingEntryRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	we := w.peer(relations.Fair())
	they := w.peer(relations.Rules{"read": {}, "audit": {"read": assertive}})
	a := we.acquire(ann, "read", Granted)
	they.acquire(bob, "audit", Waiting)
	we.acquire(cid, "read", Conflict)
	we.release(a, Released)
	we.acquire(cid, "read", Conflict)
}

// A repeat ignores other entries: an unknown tag that came since does not stop
// its extension.
func TestRepeatBesideAnUnknownTag(t *testing.T) {
	t.Parallel()
	ours := relations.Fair()
	w := newWorld(t, hello())
	we := w.peer(ours)
	they := w.peer(relations.Rules{"read": ours["read"], "write": ours["write"], "audit": {}})
	a := we.acquire(ann, "read", Granted)
	they.acquire(cid, "audit", Granted)
	w.at(second)
	we.acquire(ann, "read", Granted)
	w.is(stored{fence: n0 + 1, tags: rows{
		"read":  {{id: ann, seq: a.Seq, fence: a.Fence, expires: second + held}},
		"audit": {{id: cid, seq: n0 + 1, fence: n0 + 1, expires: held}},
	}})
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

// Rule 10. A confirm waits only for held or earlier entries. Without it two
// waiters wait for each other for ever.
func TestRule10WaitOnlyForHeldOrEarlier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "write", Granted)
	b := p.acquire(bob, "write", Waiting)
	c := p.acquire(cid, "read", Waiting)
	d := p.acquire(dan, "write", Waiting)
	p.release(a, Released)
	for _, g := range []Grant{d, c} {
		p.confirm(g, Waiting)
	}
	b = p.confirm(b, Granted)
	p.confirm(c, Waiting)
	p.release(b, Released)
	p.confirm(d, Waiting)
	c = p.confirm(c, Granted)
	p.release(c, Released)
	p.confirm(d, Granted)
}

// seq gives the order, and not the array: a confirm moves its entry.
func TestRule10OrderIsSeq(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(1))
	a := p.acquire(ann, "slot", Granted)
	b := p.acquire(bob, "slot", Waiting)
	c := p.acquire(cid, "slot", Waiting)
	p.confirm(b, Waiting) // bob's entry is now after cid's
	p.release(a, Released)
	p.confirm(c, Waiting)
	p.confirm(b, Granted)
}

// Rule 11. Every join and every grant raises lock.fence. Without it a
// compare-and-set misses the newcomer.
func TestRule11JoinsAndGrantsRaiseTheFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	var a, b Grant
	for _, step := range []struct {
		name    string
		command func()
		raises  bool
	}{
		{"grant", func() { a = p.acquire(ann, "read", Granted) }, true},
		{"grant beside", func() { p.acquire(cid, "read", Granted) }, true},
		{"join", func() { b = p.acquire(bob, "write", Waiting) }, true},
		{"repeat", func() { p.acquire(bob, "write", Waiting) }, false},
		{"refusal", func() { p.try(dan, "write", Conflict) }, false},
		{"confirm that waits", func() { p.confirm(b, Waiting) }, false},
		{"renewal", func() { p.renew(a, Renewed) }, false},
		{"releases", func() { p.release(a, Released); p.release(Grant{Pin: a.Pin, Tag: "read", ID: cid}, Lost) }, false},
		{"grant to a waiting one", func() { b = p.confirm(b, Granted) }, true},
		{"confirm that repeats", func() { b = p.confirm(b, Granted) }, false},
		{"finish", func() { p.finish(b, bson.M{"$set": bson.M{"x": 1}}, Applied) }, false},
		{"try", func() { p.try(dan, "write", Granted) }, true},
	} {
		var before int64
		if lock, ok := w.decoded()["lock"].(bson.M); ok {
			before = lock["fence"].(int64)
		}
		step.command()
		after := w.decoded()["lock"].(bson.M)["fence"].(int64)
		if raised := after > before; raised != step.raises || after < before {
			t.Errorf("%s: lock.fence was %d and is %d", step.name, before, after)
		}
	}
}
