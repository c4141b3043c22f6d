package engine

import (
	"context"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
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
	classic := p.parsed(bson.M{"$set": bson.M{"x": 1}})
	k := Token{Pin: g.Pin, Tag: g.Tag, Key: uuid.New(), TTL: g.TTL}
	for name, send := range map[string]func(context.Context, *Engine) (Answer, error){
		"confirm": func(ctx context.Context, e *Engine) (Answer, error) {
			return e.Confirm(ctx, g.Pin, Request{Tag: g.Tag, ID: g.ID})
		},
		"renew":   func(ctx context.Context, e *Engine) (Answer, error) { return e.Renew(ctx, g) },
		"look":    func(ctx context.Context, e *Engine) (Answer, error) { return e.Look(ctx, g, true) },
		"write":   func(ctx context.Context, e *Engine) (Answer, error) { return e.Write(ctx, g, classic, 1) },
		"finish":  func(ctx context.Context, e *Engine) (Answer, error) { return e.WriteAndRelease(ctx, g, classic) },
		"release": func(ctx context.Context, e *Engine) (Answer, error) { return e.Release(ctx, g) },
		"detach":  func(ctx context.Context, e *Engine) (Answer, error) { return e.Detach(ctx, g, k.Key) },
		"resume": func(ctx context.Context, e *Engine) (Answer, error) {
			return e.Resume(ctx, k, Request{Tag: g.Tag, ID: bob})
		},
		"touch": func(ctx context.Context, e *Engine) (Answer, error) { return e.Touch(ctx, k) },
		"downgrade": func(ctx context.Context, e *Engine) (Answer, error) {
			return e.Downgrade(ctx, g, 1, Request{Tag: "read", ID: bob})
		},
	} {
		p.proven(name, func(ctx context.Context) (Answer, error) { return send(ctx, p.Engine) })
		alone.once(name, func() {
			if got, err := send(t.Context(), alone.Engine); got.Outcome != Lost || err != nil {
				t.Errorf("%s: %v, %v", name, got.Outcome, err)
			}
		})
	}
	p.proven("delete", func(ctx context.Context) (Answer, error) { return p.Delete(ctx, g) })
	p.proven("remove exactly", func(ctx context.Context) (Answer, error) {
		_, err := p.RemoveExactly(ctx, Exact{Pin: g.Pin, Tag: g.Tag, ID: g.ID, Fence: g.Fence})
		return Answer{Outcome: Lost}, err
	})
	for _, grants := range [][]Grant{{g}, {g, g}} {
		p.sent.Take()
		if standing, _, err := p.Standing(t.Context(), grants); len(standing) > 0 || err != nil || !linearizable(p.sent.All()[0]) {
			t.Errorf("%v, %v; sent %v", standing, err, p.sent.All())
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
