package engine

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// writes are all commands that write.
func writes(p *peer, g Grant) map[string]func(context.Context) error {
	exact := Exact{Pin: g.Pin, Tag: g.Tag, ID: g.ID, Fence: g.Fence}
	all := map[string]func(context.Context) error{
		"delete":                   func(ctx context.Context) error { _, err := p.Delete(ctx, g); return err },
		"renew all":                func(ctx context.Context) error { _, err := p.RenewAll(ctx, []Grant{g, g}); return err },
		"remove each":              func(ctx context.Context) error { _, err := p.RemoveEach(ctx, []Exact{exact, exact}); return err },
		"delete what is idle":      func(ctx context.Context) error { _, err := p.DeleteIdle(ctx, []Pin{g.Pin}, time.Hour); return err },
		"acquire what isn't there": p.makes,
	}
	for name, send := range modifying(p, g) {
		all[name] = func(ctx context.Context) error { _, err := send(ctx); return err }
	}
	return all
}

// makes acquires a lock on a document that is not there.
func (p *peer) makes(ctx context.Context) error {
	f, err := p.ParseFilter(bson.M{"_id": uuid.NewString()})
	if err != nil {
		return err
	}
	_, err = p.Engine.Acquire(ctx, f, Request{Tag: "write", ID: ann})
	return err
}

// retrying is a peer of a document on a server with members, where the driver retries the writes that it may. The test
// controls its connections.
func retrying(t testing.TB, rules relations.Rules) (*peer, *faultnet.Net) {
	t.Helper()
	mongotest.Members(t)
	w, net := newWorld(t, hello()), faultnet.New()
	w.lab = w.Through(options.Client().SetMonitor(w.sent.Monitor()).SetDialer(net))
	return w.peer(rules, upserting), net
}

// The connection is lost after the message, and whatever came after it would be
// refused. The driver's own retry would hide the first message: its refusal
// would count for both, and the first is executed.
func TestOneAttemptIsOneMessage(t *testing.T) {
	t.Parallel()
	refusal := bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not authorized"}
	for _, name := range []string{"acquire", "finish", "delete", "renew all", "delete what is idle"} {
		t.Run(name, func(t *testing.T) { // on connections of its own, for the loss breaks others
			p, net := retrying(t, relations.Exclusive())
			send := writes(p, Grant{Pin: Pin{{Key: "_id", Value: value(p.ID)}}, Entry: Entry{Tag: "write", ID: ann, Fence: n0}})
			for _, command := range []string{"findAndModify", "update", "delete"} {
				net.Arm(faultnet.LoseReply, command)
				net.ArmRewrite(faultnet.Refuse, command, func(bson.Raw) any { return refusal })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := send[name](ctx)
			if f := AsFailure(err); err == nil || f.Nothing || !f.Passes {
				t.Errorf("certain that nothing happened: %v: %v", f.Nothing, err)
			}
		})
	}
}

// A transaction number makes the driver retry, and the server keep a record of
// the session and an image of the document.
func TestWritesHaveNoTransactionNumber(t *testing.T) {
	t.Parallel()
	p, _ := retrying(t, relations.Exclusive())
	number := func(command bson.Raw) bool { return command.Lookup("txnNumber").Type != 0 }
	plain := p.once("a plain write", func() {
		if _, err := p.lab.UpdateOne(t.Context(), bson.M{"_id": p.ID}, bson.M{"$set": bson.M{"x": 1}}); err != nil {
			t.Fatal(err)
		}
	})
	if !number(plain) {
		t.Fatalf("the driver doesn't retry: %v", plain)
	}
	for name, send := range writes(p, p.acquire(ann, "write", Granted)) {
		before := p.sent.Count()
		_ = send(t.Context()) // whatever it does to the document
		sent := p.sent.All()[before:]
		if !slices.ContainsFunc(sent, func(c bson.Raw) bool {
			return slices.Contains([]string{"findAndModify", "update", "delete"}, fixture.Name(c))
		}) {
			t.Errorf("%s sent no write: %v", name, sent)
		}
		for _, command := range sent {
			if number(command) {
				t.Errorf("%s sent %v", name, command)
			}
		}
	}
}

// The caller's options are sent as the driver's own functions send them.
func TestOptionsAreTheDrivers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	update := bson.M{"$set": bson.M{"list.$[small]": 1}}
	filters, collation := []any{bson.M{"small": bson.M{"$lt": 1}}}, &options.Collation{
		Locale: "de", CaseLevel: true, CaseFirst: "upper", Strength: 2, NumericOrdering: true,
		Alternate: "shifted", MaxVariable: "space", Normalization: true, Backwards: true,
	}
	hint, variables := bson.D{{Key: "_id", Value: 1}}, bson.M{"by": 2}
	u, err := p.ParseUpdate(update, nil, options.UpdateOne().SetUpsert(false), options.UpdateOne().SetArrayFilters(filters).SetBypassDocumentValidation(true).
		SetCollation(collation).SetComment("by ann").SetHint(hint).SetLet(variables))
	if err != nil {
		t.Fatal(err)
	}
	write := p.once("a write", func() { _, _ = p.Write(t.Context(), g, u, 1) })
	finish := p.once("a write that releases", func() { _, _ = p.WriteAndRelease(t.Context(), g, u) })
	drivers := p.once("the driver's", func() {
		w.lab.FindOneAndUpdate(t.Context(), bson.M{"_id": w.ID}, update, options.FindOneAndUpdate().SetArrayFilters(filters).
			SetBypassDocumentValidation(true).SetCollation(collation).SetComment("by ann").SetHint(hint).SetLet(variables))
	})
	for _, option := range []string{"arrayFilters", "bypassDocumentValidation", "collation", "comment", "hint", "let"} {
		sent := []bson.Raw{finish, write}
		if option == "arrayFilters" { // a write that keeps the lock adds one of its own
			sent = sent[:1]
		}
		for _, ours := range sent {
			if got, want := ours.Lookup(option), drivers.Lookup(option); want.Type == 0 || !got.Equal(want) {
				t.Errorf("%s is %v, and the driver's %v", option, got, want)
			}
		}
	}
}

// The server stops in time: by the client's Timeout, or by the context's end.
func TestWritesHaveATimeLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	limit := func(ctx context.Context, client *options.ClientOptions) int64 {
		w.lab = w.Through(client.SetMonitor(w.sent.Monitor()))
		p := w.peer(relations.Exclusive())
		return counted(p.once("renew", func() {
			_, _ = p.Renew(ctx, Grant{Pin: Pin{{Key: "_id", Value: 1}}, Entry: Entry{Tag: "write", ID: ann}})
		}), "maxTimeMS")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if ms := limit(ctx, options.Client()); ms == 0 || ms > time.Hour.Milliseconds() {
		t.Errorf("by the context: %d ms", ms)
	}
	if ms := limit(t.Context(), options.Client().SetTimeout(time.Minute)); ms == 0 || ms > time.Minute.Milliseconds() {
		t.Errorf("by the client: %d ms", ms)
	}
}

// What the server has counted stands beside the error that it refused the rest.
func TestACommandThatIsRefusedInPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p, net := w.behind(relations.Exclusive())
	refused := bson.M{"index": 1, "code": 121, "errmsg": "Document failed validation"}
	concern := bson.M{"code": 64, "errmsg": "waiting for replication timed out"}
	for name, c := range map[string]struct {
		reply  bson.M
		partly bool
	}{
		"one of them":                     {bson.M{"ok": 1, "n": 2, "nModified": 2, "writeErrors": bson.A{refused}}, true},
		"none, but a write-concern error": {bson.M{"ok": 1, "n": 2, "nModified": 2, "writeConcernError": concern}, false},
		"one, and a write-concern error":  {bson.M{"ok": 1, "n": 2, "nModified": 2, "writeErrors": bson.A{refused}, "writeConcernError": concern}, false},
	} {
		for _, command := range []string{"update", "delete"} {
			net.ArmRewrite(faultnet.Refuse, command, func(bson.Raw) any { return c.reply })
		}
		pin := Pin{{Key: "_id", Value: value(1)}}
		removed, failed := p.RemoveEach(t.Context(), []Exact{{Pin: pin, Tag: "write", ID: ann}})
		deleted, err := p.DeleteIdle(t.Context(), []Pin{pin}, time.Hour)
		if removed != 2 || deleted != 2 || AnsweredPartly(failed) != c.partly || AnsweredPartly(err) != c.partly || AsFailure(err).Nothing != c.partly {
			t.Errorf("%s: %d removed, %v; %d deleted, %v", name, removed, failed, deleted, err)
		}
	}
}

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
		"confirm":                 func(ctx context.Context) (Answer, error) { return p.Confirm(ctx, p.filter(), g.Pin, r) },
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
		"convert":                 func(ctx context.Context) (Answer, error) { return p.Convert(ctx, g, 1, next.Request) },
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

// What the driver makes of broken connections and of error replies. After a write-concern
// error it drops the image, so no lease is made of it.
func TestFaultsAsTheDriverReadsThem(t *testing.T) {
	t.Parallel()
	type verdict struct {
		certain bool
		cause   Cause
	}
	cases := map[string]struct {
		arm func(*faultnet.Net)
		verdict
	}{
		"a lost request": {func(net *faultnet.Net) { net.Arm(faultnet.LoseRequest, "findAndModify") }, verdict{}},
		"a lost reply":   {func(net *faultnet.Net) { net.Arm(faultnet.LoseReply, "findAndModify") }, verdict{}},
		"a write-concern error": {func(net *faultnet.Net) {
			net.ArmRewrite(faultnet.Rewrite, "findAndModify", func(reply bson.Raw) any {
				concern := rawOf(bson.M{"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting timed out"})
				return joined(reply, field("writeConcernError", embedded(concern)))
			})
		}, verdict{}},
	}
	for name, c := range map[string]struct {
		reply bson.M
		verdict
	}{
		"bad value":         {bson.M{"ok": 0, "code": 2, "errmsg": "bad"}, verdict{true, CauseOther}},
		"time limit":        {bson.M{"ok": 0, "code": 50, "errmsg": "operation exceeded time limit"}, verdict{}},
		"not primary":       {bson.M{"ok": 0, "code": 10107, "errmsg": "not primary"}, verdict{}},
		"no code":           {bson.M{"ok": 0, "errmsg": "?"}, verdict{}},
		"overloaded":        {bson.M{"ok": 0, "code": 462, "errmsg": "too many requests", "errorLabels": bson.A{"SystemOverloadedError", "RetryableError"}}, verdict{true, CauseOther}},
		"error and concern": {bson.M{"ok": 0, "code": 2, "errmsg": "bad", "writeConcernError": bson.M{"code": 64, "errmsg": "x"}}, verdict{}},
	} {
		cases[name] = struct {
			arm func(*faultnet.Net)
			verdict
		}{func(net *faultnet.Net) {
			net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return c.reply })
		}, c.verdict}
	}
	for name, c := range cases {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			w := newWorld(t, hello())
			p, net := w.behind(relations.Exclusive())
			g := Grant{Pin: Pin{{Key: "_id", Value: p.ID}}, Entry: Entry{Tag: "write", ID: ann, Fence: n0}}
			for command, send := range modifying(p, g) {
				net.Disarm()
				for range 3 { // the driver tries again if the server is overloaded
					c.arm(net)
				}
				ctx, cancel := context.WithTimeout(p.Context(), 15*time.Second) // more than the driver takes to look at a server again
				got, err := send(ctx)
				cancel()
				var f *Failure
				if !errors.As(err, &f) || f.Nothing != c.certain || f.Cause != c.cause {
					p.Errorf("%s: %+v: %v", command, f, err)
				}
				if got.Image != nil || got.Outcome != Lost && got.Outcome != NotFound {
					p.Errorf("%s: %v beside an error", command, got.Outcome)
				}
			}
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
	if e.Unreachable() == nil {
		t.Error("nobody is told that no server is there")
	}
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
	// What its caller has revoked looks for no server any more.
	revoked := &Sending{}
	revoked.Revoke()
	ctx, cancel := context.WithTimeout(WithSending(t.Context(), revoked), 100*time.Millisecond)
	defer cancel()
	if _, err := e.begin(ctx); !errors.Is(err, ErrRevoked) {
		t.Errorf("a revoked command: %v", err)
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
	if plain == nil { // DocumentDB keeps validators and does not enforce them; TestClassify has the refusal
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

// A read is one message, whatever it meets, and tells the server how long its sender
// waits. The driver's own would be sent again at once, thousands of times a second.
func TestAReadIsSentOnce(t *testing.T) {
	t.Parallel()
	reads := map[string]func(context.Context, *Engine, Filter) error{
		"read": func(ctx context.Context, e *Engine, f Filter) error { _, err := e.Read(ctx, f.Pin); return err },
		"standing": func(ctx context.Context, e *Engine, f Filter) error {
			_, _, err := e.Standing(ctx, []Grant{{Pin: f.Pin}})
			return err
		},
		"absent": func(ctx context.Context, e *Engine, f Filter) error { return e.Absent(ctx, f) },
		"find":   func(ctx context.Context, e *Engine, f Filter) error { _, err := e.Find(ctx, f); return err },
		"survey": func(ctx context.Context, e *Engine, _ Filter) error {
			found, err := e.Survey(ctx, Survey{})
			if err == nil {
				for _, err = range found {
				}
			}
			return err
		},
	}
	for name, read := range reads {
		for fault, strike := range map[string]func(*locktest.Server){
			"none":           func(*locktest.Server) {},
			"a code":         func(c *locktest.Server) { c.Fail(1<<30, mongo.CommandError{Code: 189, Message: "on purpose"}) },
			"a lost reply":   func(c *locktest.Server) { c.LoseReplies(1 << 30) },
			"a lost request": func(c *locktest.Server) { c.LoseRequests(1 << 30) },
		} {
			t.Run(name+", "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := locktest.New(t, locktest.ReplicaSet())
					var sent []bson.Raw
					client := c.Connect(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
						if sent = append(sent, command); len(sent) > 100 {
							c.Fail(0, mongo.CommandError{}) // or else the driver's loop has no end
							c.LoseReplies(0)
							c.LoseRequests(0)
						}
					})))
					e, err := New(client.Database("test").Collection("orders"), relations.Exclusive(), Config{Terms: Terms{TTL: DefaultTTL}, Field: DefaultField})
					if err != nil {
						t.Fatal(err)
					}
					f, err := e.ParseFilter(bson.M{"_id": 1})
					if err != nil {
						t.Fatal(err)
					}
					strike(c)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					if err := read(ctx, e, f); (err != nil) != (fault != "none") {
						t.Errorf("the error is %v", err)
					}
					if len(sent) != 1 {
						t.Fatalf("%d commands", len(sent))
					}
					if most, _ := sent[0].Lookup("maxTimeMS").AsInt64OK(); most < 4000 || most > 5000 {
						t.Errorf("the server is not told how long its sender waits: %v", sent[0])
					}
				})
			})
		}
	}
}

// A survey that is left has the server close its cursor, also where its context has ended.
func TestASurveyThatIsLeftClosesItsCursor(t *testing.T) {
	t.Parallel()
	w, net, closed := newWorld(t, hello()), faultnet.New(), 0
	w.lab = w.Through(options.Client().SetDialer(net).SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "killCursors" {
			closed++
		}
	}}))
	p := w.peer(relations.Exclusive())
	net.ArmRewrite(faultnet.Rewrite, "find", func(bson.Raw) any { // there is more than one answer has
		return bson.M{"ok": 1, "cursor": bson.M{"id": int64(7), "ns": p.Namespace(), "firstBatch": bson.A{bson.M{"_id": 1}}}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found, err := p.Survey(ctx, Survey{})
	if err != nil {
		t.Fatal(err)
	}
	for range found {
		cancel()
		break
	}
	if closed != 1 {
		t.Errorf("it was closed %d times", closed)
	}
}

// The first fence makes the index that removes old ones. Where that fails the next one does, unless the server has refused it.
func TestAFenceMakesTheIndex(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]int{0: 1, 91: 2, 13: 1, 85: 1} {
		synctest.Test(t, func(t *testing.T) {
			c, made := locktest.New(t, locktest.ReplicaSet()), 0
			client := c.Connect(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
				if fixture.Name(command) == "createIndexes" {
					made++
				}
			})))
			e, err := New(client.Database("test").Collection("orders"), relations.Exclusive(), Config{Terms: Terms{TTL: DefaultTTL}, Field: DefaultField})
			if err != nil {
				t.Fatal(err)
			}
			if code != 0 {
				c.Fail(1, mongo.CommandError{Code: code, Message: "on purpose"})
			}
			for range 3 {
				if err := e.MakeFence(t.Context(), Fence{Mark: cid}); err != nil {
					t.Fatal(err)
				}
			}
			if made != want {
				t.Errorf("code %d: three fences have sent it %d times", code, made)
			}
		})
	}
}

// nowhere reaches no server.
type nowhere struct{ dials atomic.Int32 }

func (n *nowhere) DialContext(context.Context, string, string) (net.Conn, error) {
	n.dials.Add(1)
	return nil, errors.New("no route to host")
}

// Each look for a server has the driver check its servers, although its heartbeats are
// far apart: after an outage the next look finds the server.
func TestALookHasTheServersChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &nowhere{}
		client, err := mongo.Connect(options.Client().SetHosts([]string{"nowhere:27017"}).SetDialer(network).SetHeartbeatInterval(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Disconnect(context.Background()) }()
		e, err := New(client.Database("test").Collection("orders"), relations.Exclusive(), Config{Terms: Terms{TTL: DefaultTTL}, Field: DefaultField})
		if err != nil {
			t.Fatal(err)
		}
		wait := func() { time.Sleep(2 * time.Second) } //nolint:forbidigo // in a bubble; the driver checks twice a second at most
		missed := 0
		for range 20 {
			wait() // for what an earlier look has begun
			before := network.dials.Load()
			if e.Unreachable() == nil {
				t.Fatal("a server was found")
			}
			wait()
			if network.dials.Load() == before {
				missed++
			}
		}
		if missed > 2 { // one in a thousand by chance; of looks that ask once, one in two
			t.Errorf("%d of 20 looks were no check", missed)
		}
	})
}

// Whatever the collection's settings are, an answered command was acknowledged
// by a majority: an election doesn't undo it.
func TestMajority(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, options.Collection().SetWriteConcern(writeconcern.W1()).SetReadConcern(readconcern.Local()))
	w.Insert(hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	q := p.acquire(bob, "write", Waiting)
	p.renew(g, Renewed)
	p.write(g, bson.M{"$inc": bson.M{"count": 1}}, 1, Applied)
	p.release(g, Released)
	q = p.confirm(q, Granted)
	p.read(q)
	p.finish(q, bson.M{"$inc": bson.M{"count": 1}}, Applied)
	for _, command := range w.sent.All() {
		elements, err := command.Elements()
		if err != nil {
			t.Fatal(err)
		}
		concern, of := "writeConcern", []string{"writeConcern", "w"}
		if elements[0].Key() == "find" {
			concern, of = "readConcern", []string{"readConcern", "level"}
		}
		if got, _ := command.Lookup(of...).StringValueOK(); got != "majority" && !fixture.IsProof(command) {
			t.Errorf("the %s of %v is %q", concern, command, got)
		}
	}
}
