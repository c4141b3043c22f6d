package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func lockOf(t *testing.T, doc any) (Lock, error) {
	t.Helper()
	return parseLock(rawOf(bson.M{"lock": doc}).Lookup("lock"))
}

func TestParseLock(t *testing.T) {
	t.Parallel()
	got, err := lockOf(t, stored{fence: 7, tags: rows{
		"read":  {{id: ann, seq: 3, fence: 4, since: second, expires: held, n: 2}, {id: bob, seq: 6, expires: waits}},
		"write": {},
	}, done: []uuid.UUID{cid, dan}}.document())
	if err != nil {
		t.Fatal(err)
	}
	want := Lock{Fence: 7, Done: []uuid.UUID{cid, dan}, Entries: []Entry{
		{Tag: "read", ID: ann, Owner: "test", Seq: 3, Fence: 4, Since: epoch.Add(second), Expires: epoch.Add(held), Writes: 2},
		{Tag: "read", ID: bob, Owner: "test", Seq: 6, Since: epoch, Expires: epoch.Add(waits)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a, b := want.Entries[0], want.Entries[1]; !a.Held() || b.Held() {
		t.Error("held and waiting are mixed up")
	}
	if !got.FinishedBy(dan) || got.FinishedBy(ann) {
		t.Errorf("done is %v", got.Done)
	}
	if _, there := got.Find("write", ann); there {
		t.Error("ann was found under another tag")
	}
	if e, there := got.Find("read", bob); !there || e.ID != bob {
		t.Errorf("bob was not found: %+v", e)
	}
}

// A damaged entry is shown as far as it can be read. A restore may have made
// ints and doubles of longs.
func TestParseDamagedEntry(t *testing.T) {
	t.Parallel()
	got, err := lockOf(t, bson.M{
		"fence": 7.0,
		"tags": bson.M{"read": bson.A{
			bson.D{{Key: "id", Value: bson.Binary{Subtype: 0, Data: ann[:]}}, {Key: "owner", Value: 5}, {Key: "seq", Value: int32(3)}, {Key: "fence", Value: 4.0}},
			bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: ann[:7]}}, {Key: "seq", Value: "3"}, {Key: "since", Value: 1}, {Key: "expires", Value: "x"}},
			bson.D{{Key: "id", Value: "ann"}, {Key: "n", Value: nil}, {Key: "later", Value: 1}},
		}},
		"done": bson.A{binaryID(ann), "x", nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Lock{Fence: 7, Done: []uuid.UUID{ann, uuid.Nil, uuid.Nil}, Entries: []Entry{
		{Tag: "read", Seq: 3, Fence: 4}, {Tag: "read"}, {Tag: "read"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A reader does not block a reader. Tags that the rules ignore block nothing.
func TestInTheWayLeavesTheIgnoredOut(t *testing.T) {
	t.Parallel()
	lock, err := lockOf(t, stored{fence: 7, tags: rows{
		"read":  {{id: ann, seq: 3, fence: 4, expires: held}},
		"write": {{id: bob, seq: 6, expires: waits}},
	}}.document())
	if err != nil {
		t.Fatal(err)
	}
	e := offline(t, relations.Rules{"read": {"write": assertive}, "write": {"read": {Kind: relations.None}}})
	img := &Image{Lock: lock, Now: epoch.Add(second)}
	if entries, free := e.InTheWay(img, "read", nil); len(entries) != 1 || entries[0].ID != bob || free != waits-second {
		t.Errorf("of read: %+v, for %v", entries, free)
	}
	if entries, free := e.InTheWay(img, "write", nil); len(entries) != 0 || free != 0 {
		t.Errorf("of write: %+v, for %v", entries, free)
	}
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
