package engine

import (
	"context"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Where the server has members, a linearizable read follows each command that has
// found no entry. Elsewhere nothing does.
func TestRule27NegativeAnswersAreProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	alone := w.peer(relations.Fair())
	g := alone.acquire(ann, "write", Granted)
	w.Change(bson.M{"$unset": bson.M{"lock": 1}})
	p, _ := w.retrying(relations.Fair())
	members, single := modifying(p, g), modifying(alone, g)
	for _, name := range []string{"acquire", "handoff", "write and hand off", "hand off after pipeline", "remove"} { // prove nothing by themselves
		delete(members, name)
	}
	for name, send := range members {
		p.proven(name, send)
		if name == "remove exactly" || name == "resume" || name == "touch" { // an operator's is not a holder's, and those of a token always read
			continue
		}
		alone.once(name, func() {
			if got, err := single[name](t.Context()); got.Outcome != Lost || err != nil {
				t.Errorf("%s: %v, %v", name, got.Outcome, err)
			}
		})
	}
	p.proven("delete", func(ctx context.Context) (Answer, error) { return p.Delete(ctx, g) })
	for _, grants := range [][]Grant{{g}, {g, g}} {
		p.sent.Take()
		if standing, _, err := p.Standing(t.Context(), grants); standing[g.ID].Lost == nil || err != nil || !linearizable(p.sent.All()[0]) {
			t.Errorf("%v, %v; sent %v", standing, err, p.sent.All())
		}
	}
}

// The proof shows who holds the lock now, or that the document is gone. Without members a
// command knows that only if it finds the document by its pin.
func TestALossShowsTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	alone := w.peer(relations.Fair())
	p, _ := w.retrying(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	w.Change(bson.M{"$unset": bson.M{"lock": 1}})
	p.acquire(bob, "write", Granted)
	for _, deleted := range []bool{false, true} {
		if deleted {
			w.Delete()
		}
		for name, byPin := range map[string]bool{
			"confirm": true, "renew": false, "look": false, "write": false, "finish": false,
			"release": false, "downgrade": true, "detach": false, "resume": true, "touch": true,
		} {
			got, err := modifying(p, g)[name](t.Context())
			held := got.Image != nil && len(got.Image.Lock.Entries) == 1 && got.Image.Lock.Entries[0].ID == bob
			if err != nil || got.Gone != deleted || held == deleted {
				t.Errorf("%s, deleted %v: %+v, %v", name, deleted, got, err)
			}
			if got, err = modifying(alone, g)[name](t.Context()); err != nil || got.Gone != (deleted && byPin) {
				t.Errorf("%s, deleted %v, without members: %+v, %v", name, deleted, got, err)
			}
		}
		if got, err := alone.Delete(t.Context(), g); err != nil || got.Gone != deleted || (got.Image == nil) != deleted {
			t.Errorf("delete, deleted %v: %+v, %v", deleted, got, err)
		}
	}
}

// What the read finds takes the negative answer back, and so does a read without an
// answer: in both cases the command did nothing.
func TestRule27NegativeAnswersThatAreNotProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p, net := w.retrying(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	if err := p.absent(t.Context(), p.Guard(g)); !isStale(err) {
		t.Errorf("the entry is there: %v", err)
	}
	g.Fence++
	if err := p.absent(t.Context(), p.Guard(g)); err != nil {
		t.Errorf("another fencing token: %v", err)
	}
	refuse := func(code int, name string) {
		net.ArmRewrite(faultnet.Refuse, "find", func(bson.Raw) any { return bson.M{"ok": 0, "code": code, "codeName": name, "errmsg": name} })
	}
	refuse(50, "MaxTimeMSExpired")
	_, err := p.Renew(t.Context(), g)
	if f := AsFailure(err); !f.Unproven || !f.Nothing || !f.Passes {
		t.Errorf("the read was refused: %+v", f)
	}
	refuse(123, "NotAReplicaSet")
	for range 2 { // the second time nothing is asked
		if got, err := p.Renew(t.Context(), g); got.Outcome != Lost || err != nil {
			t.Errorf("a server without members: %v, %v", got.Outcome, err)
		}
	}
}

func isStale(err error) bool {
	f := AsFailure(err)
	return f.Nothing && f.Passes && !f.Unproven && f.Cause == CauseRace
}

func linearizable(command bson.Raw) bool {
	level, _ := command.Lookup("readConcern", "level").StringValueOK()
	return level == "linearizable"
}
