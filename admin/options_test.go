package admin_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// What can't be meant, and what is called in a transaction, is refused before
// anything is sent.
func TestBadArguments(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	entries := func(q admin.Query, opts ...admin.Option) error { return first(admin.Entries(ctx, p.coll, q, opts...)) }
	inspect := func(filter any, opts ...admin.Option) error {
		return errOf(admin.Inspect(ctx, p.coll, filter, opts...))
	}
	brk := func(e admin.Entry, opts ...admin.Option) error { return errOf(admin.Break(ctx, p.coll, e, opts...)) }
	remove := func(q admin.Query, opts ...admin.Option) error { return errOf(admin.Remove(ctx, p.coll, q, opts...)) }
	sweep := func(opts ...admin.Option) error { return errOf(admin.Sweep(ctx, p.coll, opts...)) }
	index := func(tags []string, opts ...admin.Option) error {
		return errOf(admin.EnsureIndexes(ctx, p.coll, tags, opts...))
	}
	one := doclock.ID(1)
	good := admin.Entry{DocumentID: bsonValue(t, true), Tag: "write", ID: named("a")}
	for name, err := range map[string]error{
		"LockOf, no document":    errOf(admin.LockOf(nil)),
		"LockOf, Within":         errOf(admin.LockOf(nil, admin.Within(one))),
		"no collection":          errOf(admin.Inspect(ctx, nil, one)),
		"no filter":              inspect(nil),
		"an empty filter":        inspect(bson.D{}),
		"an odd filter":          inspect(7),
		"a map":                  inspect(bson.M{"_id": bson.M{"a": 1, "b": 2}}),
		"Field with a dot":       inspect(one, admin.Field("a.b")),
		"ShardKey":               inspect(one, admin.ShardKey("")),
		"ShardKey in the lock":   inspect(one, admin.ShardKey("lock")),
		"ShardKey in this lock":  inspect(one, admin.ShardKey("a.b"), admin.Field("a")),
		"an empty option":        inspect(one, admin.Option{}),
		"Inspect, DeleteIdle":    inspect(one, admin.DeleteIdle(2*time.Hour)),
		"Inspect, Within":        inspect(one, admin.Within(one)),
		"a negative age":         entries(admin.Query{OlderThan: -1}),
		"Only":                   entries(admin.Query{Only: 7}),
		"a tag with a dot":       entries(admin.Query{Tags: []string{"read", "a.b"}}),
		"an empty tag":           entries(admin.Query{Tags: []string{""}}),
		"Within nil":             entries(admin.Query{}, admin.Within(nil)),
		"Within empty":           entries(admin.Query{}, admin.Within(bson.M{})),
		"Within a map":           entries(admin.Query{}, admin.Within(bson.M{"_id": bson.M{"a": 1, "b": 2}})),
		"an entry from nowhere":  brk(admin.Entry{}),
		"an entry without an id": brk(admin.Entry{DocumentID: good.DocumentID, Tag: "write"}),
		"an entry without a tag": brk(admin.Entry{DocumentID: good.DocumentID, ID: good.ID}),
		"an entry of an odd tag": brk(admin.Entry{DocumentID: good.DocumentID, ID: good.ID, Tag: "$x"}),
		"a damaged shard key":    brk(admin.Entry{DocumentID: good.DocumentID, ID: good.ID, Tag: "a", ShardKey: bson.Raw{1}}),
		"Break, Rules":           brk(good, admin.Rules(relations.Fair())),
		"Sweep, Rules":           sweep(admin.Rules(relations.Fair())),
		"DeleteIdle":             sweep(admin.DeleteIdle(admin.MinIdle - 1)),
		"remove all":             remove(admin.Query{}),
		"remove all that live":   remove(admin.Query{Only: admin.Live}),
		"remove, a negative age": remove(admin.Query{OlderThan: -1}),
		"Remove, DeleteIdle":     remove(admin.Query{Owner: "x"}, admin.DeleteIdle(2*time.Hour)),
		"no tags":                index(nil),
		"an odd tag":             index([]string{"a b"}),
		"EnsureIndexes, Within":  index([]string{"a"}, admin.Within(one)),
	} {
		if !errors.Is(err, doclock.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.want(inspect(one, admin.Rules(relations.Rules{})), relations.ErrInvalidRules)

	session, err := p.coll.Database().Client().StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	must(t, session.StartTransaction())
	ctx = mongo.NewSessionContext(t.Context(), session)
	for _, err := range []error{inspect(one), entries(admin.Query{}), brk(good), remove(admin.Query{Owner: "x"}), sweep(), index([]string{"a"})} {
		p.want(err, doclock.ErrInTransaction)
	}
	p.sends("refused calls")
}

// A read looks for a server for as long as its client does: a person waits for it.
func TestAReadLooksForAServerAsLongAsItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := locktest.New(t)
		away := errors.New("no route to host")
		server.Down(away) // before a handshake that it could cut off, with another error
		client := server.Connect(options.Client().SetServerSelectionTimeout(200 * time.Millisecond))
		coll := client.Database("test").Collection("orders")
		for name, read := range map[string]func() error{
			"Inspect": func() error { return errOf(admin.Inspect(t.Context(), coll, doclock.ID(1))) },
			"Entries": func() error { return first(admin.Entries(t.Context(), coll, admin.Query{})) },
		} {
			begun := time.Now()
			err := read()
			if took := time.Since(begun); !errors.Is(err, away) || took > 300*time.Millisecond {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		}
	})
}

// A server that doesn't answer holds nobody up for longer than 30 s, though ctx has no end.
func TestACommandWithoutAnAnswerEnds(t *testing.T) {
	for name, c := range map[string]struct {
		late int           // answers
		by   time.Duration // each
		want error
		most time.Duration
	}{
		"Inspect": {1, time.Hour, nil, 11 * time.Second},
		"Break":   {1, time.Hour, doclock.ErrOutcomeUnknown, 30 * time.Second},
		// The survey, which may take long, and the removal.
		"Sweep": {2, 40 * time.Second, doclock.ErrOutcomeUnknown, 70 * time.Second},
		// Two surveys, and the deletes.
		"Sweep of idle documents": {3, 40 * time.Second, doclock.ErrOutcomeUnknown, 110 * time.Second},
		"CheckServer":             {1, time.Hour, context.DeadlineExceeded, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := locktest.New(t)
				coll := mem.Collection("orders", doclock.ID(1))
				locks, err := writelock.New(coll)
				must(t, err)
				must(t, errOf(locks.TryAcquire(t.Context(), doclock.ID(1))))
				time.Sleep(admin.MinIdle + time.Minute) //nolint:forbidigo // in a bubble
				found, err := admin.Inspect(t.Context(), coll, doclock.ID(1))
				must(t, err)
				if c.late == 3 { // what has expired goes in time
					must(t, errOf(admin.Sweep(t.Context(), coll)))
				}
				ctx, idle := t.Context(), admin.DeleteIdle(admin.MinIdle)
				calls := map[string]func() error{
					"Inspect":                 func() error { return errOf(admin.Inspect(ctx, coll, doclock.ID(1))) },
					"Break":                   func() error { return errOf(admin.Break(ctx, coll, found.Entries[0])) },
					"Sweep":                   func() error { return errOf(admin.Sweep(ctx, coll)) },
					"Sweep of idle documents": func() error { return errOf(admin.Sweep(ctx, coll, idle)) },
					"CheckServer":             func() error { return errOf(doclock.CheckServer(ctx, coll)) },
				}
				mem.Delay(c.late, c.by)
				begun := time.Now()
				err = calls[name]()
				if took := time.Since(begun); !errors.Is(err, c.want) || took > c.most {
					t.Errorf("%v after %v, want %v after %v at most", err, took, c.want, c.most)
				}
			})
		})
	}
}
