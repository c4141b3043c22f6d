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
	inspect := func(filter any, opts ...admin.Option) error {
		_, err := admin.Inspect(ctx, p.coll, filter, opts...)
		return err
	}
	entries := func(q admin.Query, opts ...admin.Option) error {
		for _, err := range admin.Entries(ctx, p.coll, q, opts...) {
			return err
		}
		return nil
	}
	brk := func(e admin.Entry, opts ...admin.Option) error {
		_, err := admin.Break(ctx, p.coll, e, opts...)
		return err
	}
	remove := func(q admin.Query, opts ...admin.Option) error {
		_, err := admin.Remove(ctx, p.coll, q, opts...)
		return err
	}
	sweep := func(opts ...admin.Option) error { _, err := admin.Sweep(ctx, p.coll, opts...); return err }
	index := func(tags []string, opts ...admin.Option) error {
		_, err := admin.EnsureIndexes(ctx, p.coll, tags, opts...)
		return err
	}
	one := doclock.ID(1)
	good := admin.Entry{DocumentID: bsonValue(t, true), Tag: "write", ID: named("a")}
	_, noCollection := admin.Inspect(ctx, nil, one)
	lockOf := func(doc bson.Raw, opts ...admin.Option) error { _, err := admin.LockOf(doc, opts...); return err }
	for name, err := range map[string]error{
		"LockOf, no document":    lockOf(nil),
		"LockOf, Within":         lockOf(nil, admin.Within(one)),
		"no collection":          noCollection,
		"no filter":              inspect(nil),
		"an empty filter":        inspect(bson.D{}),
		"an odd filter":          inspect(7),
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
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
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
		client := server.Connect(options.Client().SetServerSelectionTimeout(200 * time.Millisecond))
		coll, away := client.Database("test").Collection("orders"), errors.New("no route to host")
		server.Down(away)
		for name, read := range map[string]func() error{
			"Inspect": func() error { _, err := admin.Inspect(t.Context(), coll, doclock.ID(1)); return err },
			"Entries": func() error {
				for _, err := range admin.Entries(t.Context(), coll, admin.Query{}) {
					return err
				}
				return nil
			},
		} {
			begun := time.Now()
			if err := read(); !errors.Is(err, away) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > 300*time.Millisecond {
				t.Errorf("%s took %v", name, took)
			}
		}
	})
}

// A server that doesn't answer holds nobody up for longer than 30 s, though ctx has no end.
func TestACommandWithoutAnAnswerEnds(t *testing.T) {
	type world struct {
		*locktest.Server
		coll  *mongo.Collection
		entry admin.Entry // has expired
	}
	for name, c := range map[string]struct {
		call func(context.Context, *world) error
		want error
		by   time.Duration
	}{
		"Inspect": {func(ctx context.Context, w *world) error {
			w.Delay(1, time.Hour)
			_, err := admin.Inspect(ctx, w.coll, doclock.ID(1))
			return err
		}, nil, 11 * time.Second},
		"Break": {func(ctx context.Context, w *world) error {
			w.Delay(1, time.Hour)
			_, err := admin.Break(ctx, w.coll, w.entry)
			return err
		}, doclock.ErrOutcomeUnknown, 30 * time.Second},
		"Sweep": {func(ctx context.Context, w *world) error {
			w.Delay(2, 40*time.Second) // the survey, which may take long, and the removal
			_, err := admin.Sweep(ctx, w.coll)
			return err
		}, doclock.ErrOutcomeUnknown, 70 * time.Second},
		"Sweep of idle documents": {func(ctx context.Context, w *world) error {
			time.Sleep(admin.MinIdle) //nolint:forbidigo // in a bubble
			if _, err := admin.Sweep(ctx, w.coll); err != nil {
				return err
			}
			w.Delay(3, 40*time.Second) // two surveys, and the deletes
			_, err := admin.Sweep(ctx, w.coll, admin.DeleteIdle(admin.MinIdle))
			return err
		}, doclock.ErrOutcomeUnknown, admin.MinIdle + 110*time.Second},
		"CheckServer": {func(ctx context.Context, w *world) error {
			w.Delay(1, time.Hour)
			_, err := doclock.CheckServer(ctx, w.coll)
			return err
		}, context.DeadlineExceeded, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{Server: locktest.New(t)}
				coll := w.Collection("orders", doclock.ID(1))
				w.coll = coll
				locks, err := writelock.New(coll)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := locks.TryAcquire(t.Context(), doclock.ID(1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
				found, err := admin.Inspect(t.Context(), coll, doclock.ID(1))
				if err != nil {
					t.Fatal(err)
				}
				w.entry = found.Entries[0]
				begun := time.Now()
				if err := c.call(t.Context(), w); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if took := time.Since(begun); took > c.by {
					t.Errorf("it took %v, want %v at most", took, c.by)
				}
			})
		})
	}
}
