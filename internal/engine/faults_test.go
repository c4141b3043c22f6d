package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// behind makes a peer whose connections the test controls.
func (w *world) behind(rules relations.Rules, changes ...func(*Config)) (*peer, *faultnet.Net) {
	w.Helper()
	net := faultnet.New()
	w.lab = w.Through(options.Client().SetDialer(net))
	return w.peer(rules, changes...), net
}

// modifying are the commands by findAndModify, but for delete.
func modifying(p *peer, g Grant) map[string]func(context.Context) (Answer, error) {
	classic, pipeline := p.parsed(bson.M{"$set": bson.M{"x": 1}}), p.parsed(bson.A{bson.M{"$set": bson.M{"x": 1}}})
	r, next := Request{Tag: g.Tag, ID: ann}, Successor{Request: Request{Tag: g.Tag, ID: bob}}
	return map[string]func(context.Context) (Answer, error){
		"acquire":                 func(ctx context.Context) (Answer, error) { return p.Engine.Acquire(ctx, p.filter(), r) },
		"confirm":                 func(ctx context.Context) (Answer, error) { return p.Confirm(ctx, g.Pin, r) },
		"renew":                   func(ctx context.Context) (Answer, error) { return p.Renew(ctx, g) },
		"look":                    func(ctx context.Context) (Answer, error) { return p.Look(ctx, g, true) },
		"write":                   func(ctx context.Context) (Answer, error) { return p.Write(ctx, g, classic, 1) },
		"write, pipeline":         func(ctx context.Context) (Answer, error) { return p.Write(ctx, g, pipeline, 1) },
		"finish":                  func(ctx context.Context) (Answer, error) { return p.WriteAndRelease(ctx, g, classic) },
		"finish, pipeline":        func(ctx context.Context) (Answer, error) { return p.WriteAndRelease(ctx, g, pipeline) },
		"handoff":                 func(ctx context.Context) (Answer, error) { return p.Handoff(ctx, g, next) },
		"write and hand off":      func(ctx context.Context) (Answer, error) { return p.WriteAndHandOff(ctx, g, classic, next) },
		"hand off after pipeline": func(ctx context.Context) (Answer, error) { return p.WriteAndHandOff(ctx, g, pipeline, next) },
		"release":                 func(ctx context.Context) (Answer, error) { return p.Release(ctx, g) },
		"downgrade":               func(ctx context.Context) (Answer, error) { return p.Downgrade(ctx, g, 1, next.Request) },
		"detach":                  func(ctx context.Context) (Answer, error) { return p.Detach(ctx, g, key) },
		"resume":                  func(ctx context.Context) (Answer, error) { return p.Resume(ctx, p.filter(), token(g), r) },
		"touch":                   func(ctx context.Context) (Answer, error) { return p.Touch(ctx, p.filter(), token(g), ttl) },
		"remove": func(ctx context.Context) (Answer, error) {
			found, err := p.Remove(ctx, Filter{Pin: g.Pin}, g.Tag, []uuid.UUID{ann})
			if found != nil {
				return Answer{Outcome: Released}, err
			}
			return Answer{Outcome: Lost}, err
		},
		"remove exactly": func(ctx context.Context) (Answer, error) {
			_, err := p.RemoveExactly(ctx, Exact{Pin: g.Pin, Tag: g.Tag, ID: g.ID, Fence: g.Fence})
			return Answer{Outcome: Lost}, err
		},
	}
}

// fails checks that every command fails in this way while the fault is armed, and has
// no outcome beside its error.
func (p *peer) fails(arm func(), certain bool, cause Cause) {
	p.Helper()
	g := Grant{Pin: Pin{{Key: "_id", Value: p.ID}}, Entry: Entry{Tag: "write", ID: ann, Fence: n0}}
	for name, send := range modifying(p, g) {
		arm()
		ctx, cancel := context.WithTimeout(p.Context(), 15*time.Second) // more than the driver takes to look at a server again
		got, err := send(ctx)
		cancel()
		var f *Failure
		if !errors.As(err, &f) || f.Nothing != certain || f.Cause != cause {
			p.Errorf("%s: %+v: %v", name, f, err)
		}
		if got.Image != nil || got.Outcome != Lost && got.Outcome != NotFound {
			p.Errorf("%s: %v beside an error", name, got.Outcome)
		}
	}
}

func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply} {
		mongotest.RunVirtual(t, kind.String(), func(t *testing.T) {
			w := newWorld(t, hello())
			p, net := w.behind(relations.Exclusive())
			p.fails(func() { net.Arm(kind, "findAndModify"); net.Arm(kind, "findAndModify") }, false, CauseOther)
		})
	}
}

// After a write-concern error the driver drops the image, so no lease is made
// of it.
func TestWriteConcernErrorIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p, net := w.behind(relations.Exclusive())
	p.fails(func() {
		net.ArmRewrite(faultnet.Rewrite, "findAndModify", func(reply bson.Raw) any {
			var doc bson.D
			if err := bson.Unmarshal(reply, &doc); err != nil {
				t.Error(err)
			}
			return append(doc, bson.E{Key: "writeConcernError", Value: bson.M{"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting timed out"}})
		})
	}, false, CauseOther)
}

func TestErrorRepliesAsTheDriverReadsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply   bson.M
		certain bool
		cause   Cause
	}{
		"bad value":         {bson.M{"ok": 0, "code": 2, "errmsg": "bad"}, true, CauseOther},
		"time limit":        {bson.M{"ok": 0, "code": 50, "errmsg": "operation exceeded time limit"}, false, CauseOther},
		"not primary":       {bson.M{"ok": 0, "code": 10107, "errmsg": "not primary"}, false, CauseOther},
		"no code":           {bson.M{"ok": 0, "errmsg": "?"}, false, CauseOther},
		"overloaded":        {bson.M{"ok": 0, "code": 462, "errmsg": "too many requests", "errorLabels": bson.A{"SystemOverloadedError", "RetryableError"}}, true, CauseOther},
		"error and concern": {bson.M{"ok": 0, "code": 2, "errmsg": "bad", "writeConcernError": bson.M{"code": 64, "errmsg": "x"}}, false, CauseOther},
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			w := newWorld(t, hello())
			p, net := w.behind(relations.Exclusive())
			p.fails(func() {
				net.Disarm()
				for range 3 { // the driver tries again if the server is overloaded
					net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return c.reply })
				}
			}, c.certain, c.cause)
		})
	}
}

func TestEndedContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	if err := w.lab.Database().Client().Ping(t.Context(), nil); err != nil { // a driver that knows no server says so instead
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, send := range modifying(p, Grant{Pin: Pin{{Key: "_id", Value: 1}}, Entry: Entry{Tag: "write", ID: ann}}) {
		if _, err := send(ctx); !errors.Is(err, context.Canceled) || AsFailure(err).Refused() {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.hasNoLock()
}

// A command for which the driver selects no server was not sent. The next
// command first asks the driver.
func TestWithoutAServerNothingIsSent(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/").SetServerSelectionTimeout(50 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	e, err := New(client.Database("none").Collection("none"), relations.Exclusive(), Config{Terms: Terms{TTL: ttl, Owner: "owner"}, Field: DefaultField, RetryLimit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	e.reached.Store(true) // the server could be reached a moment ago
	p := &peer{&world{Document: &fixture.Document{TB: t, ID: 1}}, e}
	for name, send := range modifying(p, Grant{Pin: Pin{{Key: "_id", Value: value(1)}}, Entry: Entry{Tag: "write", ID: ann}}) {
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := send(ctx)
			f := AsFailure(err)
			cancel()
			if !f.Outage() || e.reached.Load() {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestDisconnectedClient(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive())
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/"))
	if err != nil {
		t.Fatal(err)
	}
	e.coll = client.Database("d").Collection("c")
	if err := client.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Renew(t.Context(), Grant{Pin: Pin{{Key: "_id", Value: 1}}, Entry: Entry{Tag: "write", ID: ann}}); !errors.Is(err, mongo.ErrClientDisconnected) || !AsFailure(err).Nothing {
		t.Error(err)
	}
}

// The other cases are refusals of the real server.

func TestServerRefusesTheUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	before := w.Stored()
	for name, update := range map[string]any{
		"increments a text":  bson.M{"$inc": bson.M{"text": 1}},
		"unknown operator":   bson.M{"$frobnicate": bson.M{"x": 1}},
		"conflicting paths":  bson.M{"$set": bson.M{"x": 1}, "$inc": bson.M{"x": 1}},
		"unknown expression": bson.A{bson.M{"$set": bson.M{"x": bson.M{"$frobnicate": 1}}}},
		"unused identifier":  bson.M{"$set": bson.M{"x.$[nobody]": 1}},
	} {
		u := p.parsed(update)
		if _, err := p.Write(t.Context(), g, u, 1); err == nil || !AsFailure(err).Nothing {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.WriteAndRelease(t.Context(), g, u); err == nil || !AsFailure(err).Nothing {
			t.Errorf("%s, and release: %v", name, err)
		}
	}
	if after := w.Stored(); after.String() != before.String() {
		t.Errorf("refused updates made %v of %v", after, before)
	}
	p.release(g, Released) // the lease was still held
}

func TestView(t *testing.T) {
	t.Parallel()
	mongotest.Real(t, "views")
	w := newWorld(t, hello())
	if err := w.Hand.Database().CreateView(t.Context(), "view", w.Hand.Name(), bson.A{bson.M{"$match": bson.M{}}}); err != nil {
		t.Fatal(err)
	}
	w.lab = w.Hand.Database().Collection("view")
	p := w.peer(relations.Exclusive())
	got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: ann})
	if err == nil && got.Outcome == NotFound && got.Image == nil {
		return // DocumentDB says so; nothing can be written through a view there either
	}
	if f := AsFailure(err); !f.Nothing || f.Cause != CauseView {
		t.Errorf("%v: %v", got.Outcome, err)
	}
}

func TestValidator(t *testing.T) {
	t.Parallel()
	mongotest.Real(t, "validators")
	w := emptyWorld(t)
	strict := options.CreateCollection().SetValidator(bson.M{"$jsonSchema": bson.M{
		"bsonType": "object", "additionalProperties": false,
		"properties": bson.M{"_id": bson.M{}, "text": bson.M{"bsonType": "string"}},
	}})
	if err := w.Hand.Database().CreateCollection(t.Context(), w.Hand.Name(), strict); err != nil {
		t.Fatal(err)
	}
	w.Insert(hello())
	_, plain := w.Hand.UpdateOne(t.Context(), bson.M{"_id": w.ID}, bson.M{"$set": bson.M{"other": 1}})
	p := w.peer(relations.Exclusive())
	got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: ann})
	if plain == nil { // DocumentDB keeps validators and does not enforce them; TestErrorRepliesAsTheDriverReadsThem has the refusal
		if got.Outcome != Granted || err != nil {
			t.Errorf("%v, %v, where a plain write is let through", got.Outcome, err)
		}
		return
	}
	if f := AsFailure(err); !f.Nothing || f.Cause != CauseValidator {
		t.Errorf("%v", err)
	}
	w.hasNoLock()
}
