package engine

import (
	"bytes"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestRenewExtends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	p.acquire(cid, "write", Waiting)
	w.at(4 * second)
	p.renew(g, Renewed)
	w.is(stored{fence: n0 + 2, tags: rows{
		"read": {
			{id: ann, seq: n0, fence: n0, expires: 4*second + held},
			{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held},
		},
		"write": {{id: cid, seq: n0 + 2, expires: waits}},
	}})
}

// An expired entry that nobody pruned is still present, so it is renewed. Other
// entries stay as they are.
func TestRenewAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	w.at(20 * second)
	p.renew(g, Renewed)
	w.is(stored{fence: n0 + 1, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: 20*second + held},
		{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held},
	}}})
}

func TestRenewLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	w.at(held)
	p.acquire(bob, "write", Granted)
	before := w.Stored()
	p.renew(g, Lost)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a lost renewal made %v of %v", after, before)
	}
	w.Delete()
	p.once("renew", func() {
		if got, err := p.Renew(t.Context(), g); got.Outcome != Lost || err != nil {
			t.Errorf("of a missing document: %v, %v", got.Outcome, err)
		}
	})
}

// A waiting entry has no fencing token and no renewal: confirms keep it alive.
func TestRenewOfAWaitingEntryIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	p.renew(p.acquire(bob, "write", Waiting), Lost)
}

func TestReleaseLeavesTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	b := p.acquire(bob, "read", Granted)
	c := p.acquire(cid, "write", Waiting)
	w.at(20 * second) // nothing is pruned
	p.release(g, Released)
	w.is(stored{fence: n0 + 2, tags: rows{
		"read":  {{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held}},
		"write": {{id: cid, seq: n0 + 2, expires: waits}},
	}})
	p.release(b, Released) // leaves an empty array
	p.release(c, Released) // a waiting entry's fence is 0
	w.is(stored{fence: n0 + 2, tags: rows{"read": {}, "write": {}}})
}

func TestReleaseTwiceIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	p.release(g, Released)
	p.release(g, Lost)
	w.is(stored{fence: n0, tags: rows{"write": {}}})
}

func TestReleaseOfADocumentThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive(), func(c *Config) { c.Upsert = true })
	g := p.acquire(ann, "write", Granted)
	w.Delete()
	p.once("release", func() {
		if got, err := p.Release(t.Context(), g); got.Outcome != Lost || err != nil {
			t.Error(got.Outcome, err)
		}
	})
	if n, err := w.Hand.CountDocuments(t.Context(), bson.M{}); n != 0 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}

// After an acquire of unknown outcome the document is unknown; only the id is
// known.
func TestReleaseWithoutAPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	w.Insert(bson.E{Key: "_id", Value: int32(2)})
	p.acquire(ann, "write", Granted)
	p.release(Grant{Tag: "write", ID: ann, Fence: n0}, Released)
	w.is(stored{fence: n0, tags: rows{"write": {}}})
	if n, err := w.Hand.CountDocuments(t.Context(), bson.M{"lock": bson.M{"$exists": true}}); n != 1 || err != nil {
		t.Errorf("%d documents have a lock, %v", n, err)
	}
}

func TestReadChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.acquire(bob, "write", Waiting)
	before := w.Stored()
	w.at(20 * second)
	img := p.read(g)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a read made %v of %v", after, before)
	}
	if !img.Now.Equal(w.clock.Now()) || img.Whole() {
		t.Errorf("the image's time is %v", img.Now)
	}
	w.Delete()
	p.once("read", func() {
		if img, err := p.Read(t.Context(), g.Pin); img != nil || err != nil {
			t.Errorf("of a missing document: %v, %v", img, err)
		}
	})
}
