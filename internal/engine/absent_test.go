package engine

import (
	"context"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Where the server has members, a linearizable read follows each command that has
// found no entry. Elsewhere nothing does.
func TestRule27NegativeAnswersAreProven(t *testing.T) {
	t.Parallel()
	p, _ := retrying(t, relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.Change(bson.M{"$unset": bson.M{"lock": 1}})
	members := modifying(p, g)
	for _, name := range []string{"acquire", "handoff", "write and hand off", "hand off after pipeline", "remove"} { // prove nothing by themselves
		delete(members, name)
	}
	for name, send := range members {
		p.proven(name, send)
	}
	p.proven("delete", func(ctx context.Context) (Answer, error) { return p.Delete(ctx, g) })
	for _, grants := range [][]Grant{{g}, {g, g}} {
		p.sent.Take()
		if standing, _, err := p.Standing(t.Context(), grants); standing[g.ID].Lost == nil || err != nil || !fixture.IsProof(p.sent.All()[0]) {
			t.Errorf("%v, %v; sent %v", standing, err, p.sent.All())
		}
	}
	t.Run("alone", func(t *testing.T) {
		mongotest.Own(t)
		alone := newWorld(t, hello()).peer(relations.Fair())
		for name, send := range modifying(alone, g) {
			if members[name] == nil || name == "remove exactly" || name == "resume" || name == "touch" { // an operator's is not a holder's, and those of a token always read
				continue
			}
			alone.once(name, func() {
				if got, err := send(t.Context()); got.Outcome != Lost || err != nil {
					t.Errorf("%s: %v, %v", name, got.Outcome, err)
				}
			})
		}
	})
}

// The proof shows who holds the lock now, or that the document is gone. Without members a
// command knows that only if it finds the document by its pin.
func TestALossShowsTheDocument(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]locktest.Option{"members": {locktest.ReplicaSet()}, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			mongotest.Own(t, opts...)
			p := newWorld(t, hello()).peer(relations.Fair())
			g := p.acquire(ann, "write", Granted)
			p.Change(bson.M{"$unset": bson.M{"lock": 1}})
			p.acquire(bob, "write", Granted)
			for _, deleted := range []bool{false, true} {
				if deleted {
					p.Document.Delete()
				}
				for command, byPin := range map[string]bool{
					"confirm": true, "renew": false, "look": false, "write": false, "finish": false,
					"release": false, "downgrade": true, "detach": false, "resume": true, "touch": true,
				} {
					shows := byPin || opts != nil
					got, err := modifying(p, g)[command](t.Context())
					held := got.Image != nil && len(got.Image.Lock.Entries) == 1 && got.Image.Lock.Entries[0].ID == bob
					if err != nil || got.Gone != (shows && deleted) || held != (shows && !deleted) {
						t.Errorf("%s, deleted %v: %+v, %v", command, deleted, got, err)
					}
				}
				if got, err := p.Engine.Delete(t.Context(), g); err != nil || got.Gone != deleted || (got.Image == nil) != deleted {
					t.Errorf("delete, deleted %v: %+v, %v", deleted, got, err)
				}
			}
		})
	}
}

// What the read finds takes the negative answer back, and so does a read without an
// answer: in both cases the command did nothing.
func TestRule27NegativeAnswersThatAreNotProven(t *testing.T) {
	t.Parallel()
	p, net := retrying(t, relations.Exclusive())
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
	if f := AsFailure(err); err == nil || !f.Unproven || !f.Nothing || !f.Passes {
		t.Errorf("the read was refused: %v", err)
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
