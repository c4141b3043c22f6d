package engine

import (
	"bytes"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestConfirmNoLongerBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	r := p.acquire(ann, "read", Granted)
	p.acquire(bob, "write", Waiting)
	p.release(r, Released)
	w.at(second)
	g := p.confirm(Grant{Pin: r.Pin, Tag: "write", ID: bob}, Granted)
	w.is(stored{fence: n0 + 1000, tags: rows{
		"write": {{id: bob, seq: n0 + 1, fence: n0 + 1000, expires: second + held}},
	}})
	if g.Seq != n0+1 || g.Fence != n0+1000 {
		t.Errorf("the grant is %+v", g)
	}
}

// Two grants in one millisecond get two fences.
func TestConfirmCountsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	r := p.acquire(ann, "read", Granted)
	g := p.acquire(bob, "write", Waiting)
	p.release(r, Released)
	g = p.confirm(g, Granted)
	if g.Fence != n0+2 {
		t.Errorf("fence %d, want %d", g.Fence, n0+2)
	}
	w.is(stored{fence: n0 + 2, tags: rows{"write": {{id: bob, seq: n0 + 1, fence: n0 + 2, expires: held}}}})
}

func TestConfirmStillBlockedExtendsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	g := p.acquire(bob, "write", Waiting)
	w.at(2 * second)
	img := p.ask(g, Request{Tag: "write", ID: bob}, Waiting)
	w.is(stored{fence: n0 + 1, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: held}},
		"write": {{id: bob, seq: n0 + 1, expires: 2*second + waits}},
	}})
	own, _ := img.Lock.Find("write", bob)
	if entries, free := p.InTheWay(img, "write", &own); len(entries) != 1 || entries[0].ID != ann || free != held-2*second {
		t.Errorf("in the way: %+v, for %v", entries, free)
	}
}

func TestConfirmHeldAgainExtends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.acquire(bob, "read", Waiting)
	w.at(second)
	if again := p.confirm(g, Granted); again.Fence != g.Fence || again.Seq != g.Seq {
		t.Errorf("a repeat changed the grant: %+v, then %+v", g, again)
	}
	w.is(stored{fence: n0 + 1, tags: rows{
		"read":  {{id: bob, seq: n0 + 1, expires: waits}},
		"write": {{id: ann, seq: n0, fence: n0, expires: second + held}},
	}})
}

func TestConfirmWithoutEntryIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	g := p.acquire(bob, "write", Waiting)
	p.release(g, Released)
	before := w.Stored()
	w.at(20 * second)
	p.confirm(g, Lost)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a lost confirm made %v of %v", after, before)
	}
}

func TestConfirmOnADocumentNeverLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	img := p.arrive(Request{Tag: "read", ID: ann}, Granted)
	pin := p.Pin(img)
	w.Delete()
	w.Insert(hello())
	p.confirm(Grant{Pin: pin, Tag: "read", ID: ann}, Lost)
	w.hasNoLock()
}

func TestConfirmOfADocumentThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair(), func(c *Config) { c.Upsert = true })
	p.acquire(ann, "read", Granted)
	g := p.acquire(bob, "write", Waiting)
	w.Delete()
	p.once("confirm", func() {
		got, err := p.Confirm(t.Context(), g.Pin, Request{Tag: "write", ID: bob})
		if got.Outcome != Lost || got.Image != nil || err != nil {
			t.Error(got.Outcome, got.Image, err)
		}
	})
	if n, err := w.Hand.CountDocuments(t.Context(), bson.M{}); n != 0 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}

// A confirm prunes other entries, granted or not. It keeps its own entry even
// if that has expired, and extends it.
func TestConfirmPrunesOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	r := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	g := p.acquire(cid, "write", Waiting)
	w.at(5 * second)
	p.renew(r, Renewed)
	w.at(12 * second) // bob and cid have expired
	p.confirm(g, Waiting)
	w.is(stored{fence: n0 + 2, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: 5*second + held}},
		"write": {{id: cid, seq: n0 + 2, expires: 12*second + waits}},
	}})
	w.at(20 * second)
	p.confirm(g, Granted)
	w.is(stored{fence: n0 + 20000, tags: rows{
		"write": {{id: cid, seq: n0 + 2, fence: n0 + 20000, expires: 20*second + held}},
	}})
}

// Waiters are served in the order of arrival. Those that ignore each other are
// held together.
func TestConfirmServesTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	first := p.acquire(ann, "write", Granted)
	r1 := p.acquire(bob, "read", Waiting)
	r2 := p.acquire(cid, "read", Waiting)
	w1 := p.acquire(dan, "write", Waiting)
	r3 := p.acquire(eve, "read", Waiting)
	p.release(first, Released)
	p.confirm(r3, Waiting) // behind the writer
	p.confirm(w1, Waiting)
	r2 = p.confirm(r2, Granted)
	r1 = p.confirm(r1, Granted)
	p.confirm(w1, Waiting)
	p.release(r1, Released)
	p.confirm(w1, Waiting)
	p.release(r2, Released)
	p.confirm(r3, Waiting)
	p.confirm(w1, Granted)
}

func TestConfirmAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(2))
	a := p.acquire(ann, "slot", Granted)
	p.acquire(bob, "slot", Granted)
	c := p.acquire(cid, "slot", Waiting)
	d := p.acquire(dan, "slot", Waiting)
	p.confirm(c, Waiting)
	p.release(a, Released)
	p.confirm(d, Waiting)
	p.confirm(c, Granted)
}

func TestInTheWayOfAWaitingEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.acquire(bob, "write", Waiting)
	p.acquire(cid, "write", Waiting)
	p.acquire(dan, "write", Waiting)
	img := p.ask(Grant{Pin: g.Pin}, Request{Tag: "write", ID: cid}, Waiting)
	own, _ := img.Lock.Find("write", cid)
	entries, free := p.InTheWay(img, "write", &own)
	if len(entries) != 2 || entries[0].ID == dan || entries[1].ID == dan || free != held {
		t.Errorf("in the way: %+v, for %v; want ann and bob", entries, free)
	}
}
