package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const second = time.Second

func hello() bson.E { return bson.E{Key: "text", Value: "hello"} }

func TestAcquireFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	g := w.peer(relations.Exclusive()).acquire(ann, "write", Granted)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}}}})
	want := Grant{Pin: Pin{{Key: "_id", Value: g.DocID}}, DocID: g.DocID, Tag: "write", ID: ann, Seq: n0, Fence: n0, TTL: ttl, Alone: n0}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("the grant (-want +got):\n%s", diff)
	}
	if id := g.DocID.AsInt64(); id != 1 {
		t.Errorf("the grant is of document %d", id)
	}
}

func TestAcquireJoinsOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	w.at(second)
	p.acquire(bob, "read", Granted)
	w.is(stored{fence: n0 + 1000, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: held},
		{id: bob, seq: n0 + 1000, fence: n0 + 1000, since: second, expires: second + held},
	}}})
}

func TestAcquireHeldAgainExtends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	first := p.acquire(ann, "write", Granted)
	w.at(3 * second)
	second := p.acquire(ann, "write", Granted)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: 3*time.Second + held}}}})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("a repeat changed the grant (-first +second):\n%s", diff)
	}
}

func TestAcquireHeldAgainThoughOthersAreInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	p.acquire(bob, "write", Waiting)
	w.at(second)
	p.acquire(ann, "read", Granted)
	w.is(stored{fence: n0 + 1, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: second + held}},
		"write": {{id: bob, seq: n0 + 1, expires: waits}},
	}})
}

func TestAcquireWaitingAgainExtendsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	r := p.acquire(ann, "read", Granted)
	p.acquire(bob, "write", Waiting)
	w.at(second)
	p.acquire(bob, "write", Waiting)
	after := stored{fence: n0 + 1, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: held}},
		"write": {{id: bob, seq: n0 + 1, expires: second + waits}},
	}}
	w.is(after)

	// It stays waiting even when nothing blocks it any more: only a confirm
	// decides on a waiting entry.
	p.release(r, Released)
	p.acquire(bob, "write", Waiting)
	after.tags["read"] = nil
	w.is(after)
}

func TestAcquireAgainPrunesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	w.at(20 * second)
	p.acquire(ann, "read", Granted)
	w.is(stored{fence: n0 + 1, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: 20*second + held},
		{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held},
	}}})
}

func TestAcquireRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	p.acquire(ann, "write", Granted)
	before := w.Stored()
	w.at(second)
	for _, tag := range []string{"read", "write"} {
		for _, try := range []bool{false, true} {
			img := p.arrive(Request{Tag: tag, ID: bob, Try: try}, Conflict)
			entries, free := p.InTheWay(img, tag, nil)
			if len(entries) != 1 || entries[0].ID != ann || entries[0].Owner != "test" || free != held-second {
				t.Errorf("in the way of %q: %+v, for %v", tag, entries, free)
			}
		}
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a refused acquire made %v of %v", after, before)
	}
}

// A refused acquire prunes nothing either: it is a no-op write.
func TestAcquireRefusedPrunesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	p.acquire(ann, "read", Granted)
	w.at(6 * second)
	p.acquire(bob, "read", Granted)
	before := w.Stored()
	w.at(12 * second)
	img := p.arrive(Request{Tag: "write", ID: cid}, Conflict)
	if entries, free := p.InTheWay(img, "write", nil); len(entries) != 1 || entries[0].ID != bob || free != 6*second+held-12*second {
		t.Errorf("in the way: %+v, for %v", entries, free)
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a refused acquire made %v of %v", after, before)
	}
}

func TestAcquireBlockedWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	w.at(second)
	g := p.acquire(bob, "write", Waiting)
	w.is(stored{fence: n0 + 1000, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: held}},
		"write": {{id: bob, seq: n0 + 1000, since: second, expires: second + waits}},
	}})
	if g.Seq != n0+1000 || g.Fence != 0 {
		t.Errorf("the waiting entry's grant is %+v", g)
	}

	// A waiting entry blocks the tags that respect it.
	w.at(2 * second)
	p.acquire(cid, "read", Waiting)
	w.is(stored{fence: n0 + 2000, tags: rows{
		"read": {
			{id: ann, seq: n0, fence: n0, expires: held},
			{id: cid, seq: n0 + 2000, since: 2 * second, expires: 2*second + waits},
		},
		"write": {{id: bob, seq: n0 + 1000, since: second, expires: second + waits}},
	}})
}

func TestTryAcquireBlockedLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	before := w.Stored()
	img := p.arrive(Request{Tag: "write", ID: bob, Try: true}, Conflict)
	if entries, free := p.InTheWay(img, "write", nil); len(entries) != 1 || entries[0].ID != ann || free != held {
		t.Errorf("in the way: %+v, for %v", entries, free)
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a refused try made %v of %v", after, before)
	}
	p.acquire(bob, "write", Waiting)
	p.try(cid, "read", Conflict) // blocked by a waiting entry
}

func TestTryAcquireFreeIsGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.try(ann, "write", Granted)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}}}})
	w.at(second)
	p.try(ann, "write", Granted)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: second + held}}}})
}

// If a cooperative relation refuses, an assertive one has no effect: nothing is
// written.
func TestAcquireRefusedAndBlockedIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.WritePreferring())
	p.acquire(ann, "read", Granted)
	p.acquire(bob, "write", Waiting)
	before := w.Stored()
	p.acquire(cid, "write", Conflict)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a refused acquire made %v of %v", after, before)
	}
}

func TestAcquireAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(2))
	p.acquire(ann, "slot", Granted)
	p.acquire(bob, "slot", Granted)
	p.acquire(cid, "slot", Waiting)
	p.try(dan, "slot", Conflict)

	atMostTwo := relations.Rules{"slot": {"slot": {Kind: relations.Cooperative, Allow: 1}}}
	w2 := newWorld(t)
	p = w2.peer(atMostTwo)
	p.acquire(ann, "slot", Granted)
	w2.at(second)
	p.acquire(bob, "slot", Granted)
	img := p.arrive(Request{Tag: "slot", ID: cid}, Conflict)
	if entries, free := p.InTheWay(img, "slot", nil); len(entries) != 2 || free != held-second {
		t.Errorf("in the way: %+v, for %v; two, until the first expires", entries, free)
	}
}

func TestAcquirePrunes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.MultiGranularity())
	p.acquire(ann, "IS", Granted)
	p.acquire(bob, "IX", Granted)
	p.acquire(cid, "IX", Granted)
	w.at(5 * second)
	p.acquire(dan, "IX", Granted)
	w.at(held) // expires is reclaimable from then on
	p.acquire(eve, "IS", Granted)
	w.is(stored{fence: n0 + held.Milliseconds(), tags: rows{ // bob and cid were pruned
		"IS": {{id: eve, seq: n0 + 10500, fence: n0 + 10500, since: held, expires: 2 * held}},
		"IX": {{id: dan, seq: n0 + 5000, fence: n0 + 5000, since: 5 * second, expires: 5*second + held}},
	}})
}

// A millisecond before its expiry an entry still excludes others.
func TestAcquireAtTheEdgeOfAnExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	p.acquire(ann, "write", Granted)
	w.at(held - time.Millisecond)
	p.acquire(bob, "write", Conflict)
	w.at(held)
	p.acquire(bob, "write", Granted)
	w.is(stored{fence: n0 + 10500, tags: rows{"write": {
		{id: bob, seq: n0 + 10500, fence: n0 + 10500, since: held, expires: 2 * held},
	}}})
}

// An emptied tag is dropped whether it was emptied by pruning or by a release.
func TestAcquireDropsEmptiedTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.MultiGranularity())
	s := p.acquire(ann, "IS", Granted)
	p.release(s, Released)
	w.is(stored{fence: n0, tags: rows{"IS": {}}})
	p.acquire(bob, "IX", Granted)
	w.is(stored{fence: n0 + 1, tags: rows{"IX": {{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held}}}})
}

func TestAcquireByAnyFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "name", Value: "garden"}, bson.E{Key: "size", Value: 7})
	p := w.peer(relations.Exclusive())
	f, err := p.ParseFilter(bson.M{"name": "garden", "size": bson.M{"$gt": 5}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: ann})
	if got.Outcome != Granted || err != nil {
		t.Fatal(got.Outcome, err)
	}
	p.asStored("acquire", got.Image)

	// The narrowed filter still demands the same as before.
	w.Change(bson.M{"$set": bson.M{"size": 3}})
	got, err = p.Engine.Acquire(t.Context(), f.At(p.Pin(got.Image)), Request{Tag: "write", ID: bob})
	if got.Outcome != NotFound || got.Image != nil || err != nil {
		t.Fatal(got.Outcome, got.Image, err)
	}
}

func TestAcquireFindsNoDocument(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	p := w.peer(relations.Exclusive())
	for _, try := range []bool{false, true} {
		p.once("acquire", func() {
			got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: ann, Try: try})
			if got.Outcome != NotFound || got.Image != nil || err != nil {
				t.Errorf("try %v: %v, %v, %v", try, got.Outcome, got.Image, err)
			}
		})
	}
	if n, err := w.Hand.CountDocuments(t.Context(), bson.M{}); n != 0 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}
