package engine

import (
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// renewAll sends one command and checks whether it matched all.
func (p *peer) renewAll(want bool, grants ...Grant) {
	p.Helper()
	p.once("renew all", func() {
		got, err := p.RenewAll(p.Context(), grants)
		if all := got.Outcome == Renewed; err != nil || all != want {
			p.Errorf("renewed all: %v, %v, want %v", all, err, want)
		}
	})
}

// standing sends one command and checks what it finds.
func (p *peer) standing(want map[uuid.UUID]time.Duration, grants ...Grant) {
	p.Helper()
	p.once("standing", func() {
		all, _, err := p.Standing(p.Context(), grants)
		if err != nil {
			p.Error(err)
		}
		got := map[uuid.UUID]time.Duration{}
		for id, s := range all {
			if s.Lost == nil {
				got[id] = s.Left
			} else if lost := *s.Lost; lost.Outcome != Lost || lost.Gone != (lost.Image == nil) {
				p.Errorf("lost: %+v", lost)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			p.Errorf("standing (-want +got):\n%s", diff)
		}
	})
}

// elsewhere makes another document and acquires a lock on it.
func (p *peer) elsewhere(id uuid.UUID, tag string) Grant {
	p.Helper()
	w := p.world
	home := w.ID
	defer func() { w.ID = home }()
	w.Insert(bson.E{Key: "_id", Value: int32(2)})
	return p.acquire(id, tag, Granted)
}

func TestRenewAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	a, b, c := p.acquire(ann, "read", Granted), p.acquire(bob, "read", Granted), p.elsewhere(cid, "write")
	w.at(4 * second)
	p.renewAll(true, a, b, c)
	p.standing(map[uuid.UUID]time.Duration{ann: ttl, bob: ttl, cid: ttl}, a, b, c)
	w.is(stored{fence: n0 + 1, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: 4*second + held},
		{id: bob, seq: n0 + 1, fence: n0 + 1, expires: 4*second + held},
	}}})

	w.at(5 * second) // the holder gets no tolerance
	p.standing(map[uuid.UUID]time.Duration{ann: ttl - second, bob: ttl - second, cid: ttl - second}, a, b, c)
	w.at(3 * second) // the server's clock was set back
	p.standing(map[uuid.UUID]time.Duration{ann: ttl, bob: ttl, cid: ttl}, a, b, c)
}

func TestRenewAllButOne(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"pruned":            func(w *world) { w.Change(bson.M{"$set": bson.M{"lock.tags.read": bson.A{}}}) },
		"another fence":     func(w *world) { w.Change(bson.M{"$inc": bson.M{"lock.tags.read.0.fence": 1}}) },
		"under another tag": func(w *world) { w.Change(bson.M{"$rename": bson.M{"lock.tags.read": "lock.tags.write"}}) },
		"erased":            func(w *world) { w.Change(bson.M{"$unset": bson.M{"lock": ""}}) },
		"foreign":           func(w *world) { w.Change(bson.M{"$set": bson.M{"lock": "mine"}}) },
		"deleted":           func(w *world) { w.Delete() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hello())
			p := w.peer(relations.ReadPreferring())
			a, b := p.acquire(ann, "read", Granted), p.elsewhere(bob, "write")
			lose(w)
			w.at(4 * second)
			p.renewAll(false, a, b)
			p.standing(map[uuid.UUID]time.Duration{bob: ttl}, a, b)
		})
	}
}

// The lock was copied with its document: the copy proves nothing.
func TestStandingGoesByTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	a, b := p.acquire(ann, "read", Granted), p.elsewhere(bob, "read")
	copied := w.Stored().Lookup("lock", "tags", "read", "0")
	w.Delete()
	if _, err := w.Hand.UpdateOne(t.Context(), bson.M{"_id": 2}, bson.M{"$push": bson.M{"lock.tags.read": copied}}); err != nil {
		t.Fatal(err)
	}
	p.renewAll(false, a, b)
	p.standing(map[uuid.UUID]time.Duration{bob: ttl}, a, b)
}

// Standing finds the entries that the guard matches, whatever else the lock
// field holds.
func TestStandingBesideWhatIsForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	g := p.acquire(ann, "read", Granted)
	w.Change(bson.M{"$set": bson.M{"lock.tags.other": "text"}, "$push": bson.M{"lock.tags.read": 4}})
	p.standing(map[uuid.UUID]time.Duration{ann: ttl}, g)
	p.release(g, Released)
}

func TestRenewAllWithoutACollection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	g := p.acquire(ann, "read", Granted)
	if err := w.Hand.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.renewAll(false, g)
	p.standing(nil, g)
}
