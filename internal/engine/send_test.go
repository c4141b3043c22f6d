package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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
