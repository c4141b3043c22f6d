package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// What can't be meant is refused before anything is sent.
func TestBadArguments(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	entries := func(q admin.Query, opts ...admin.Option) error {
		for _, err := range admin.Entries(ctx, p.coll, q, opts...) {
			return err
		}
		return nil
	}
	inspect := func(coll *mongo.Collection, filter any, opts ...admin.Option) error {
		_, err := admin.Inspect(ctx, coll, filter, opts...)
		return err
	}
	brk := func(e admin.Entry, opts ...admin.Option) error {
		_, err := admin.Break(ctx, p.coll, e, opts...)
		return err
	}
	sweep := func(opts ...admin.Option) error { _, err := admin.Sweep(ctx, p.coll, opts...); return err }
	remove := func(q admin.Query, opts ...admin.Option) error {
		_, err := admin.Remove(ctx, p.coll, q, opts...)
		return err
	}
	index := func(tags []string, opts ...admin.Option) error {
		_, err := admin.EnsureIndexes(ctx, p.coll, tags, opts...)
		return err
	}
	good := admin.Entry{DocumentID: bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}}, Tag: "write", ID: named("a")}
	for name, err := range map[string]error{
		"no collection":          inspect(nil, doclock.ID(1)),
		"no filter":              inspect(p.coll, nil),
		"an empty filter":        inspect(p.coll, bson.D{}),
		"an odd filter":          inspect(p.coll, 7),
		"Field with a dot":       inspect(p.coll, doclock.ID(1), admin.Field("a.b")),
		"ShardKey":               inspect(p.coll, doclock.ID(1), admin.ShardKey("")),
		"an empty option":        inspect(p.coll, doclock.ID(1), admin.Option{}),
		"Inspect, DeleteIdle":    inspect(p.coll, doclock.ID(1), admin.DeleteIdle(2*time.Hour)),
		"Inspect, Within":        inspect(p.coll, doclock.ID(1), admin.Within(doclock.ID(1))),
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
		"EnsureIndexes, Within":  index([]string{"a"}, admin.Within(doclock.ID(1))),
	} {
		if !errors.Is(err, doclock.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		} else {
			t.Log(err)
		}
	}
	p.want(inspect(p.coll, doclock.ID(1), admin.Rules(relations.Rules{})), relations.ErrInvalidRules)
	p.sends("refused calls")
}

// A running transaction would hide the change, or be waited for.
func TestInATransaction(t *testing.T) {
	p := newPlace(t)
	session, err := p.coll.Database().Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	ctx := mongo.NewSessionContext(t.Context(), session)
	_, err = admin.Inspect(ctx, p.coll, doclock.ID(1))
	p.want(err, doclock.ErrInTransaction)
	_, err = admin.Break(ctx, p.coll, admin.Entry{})
	p.want(err, doclock.ErrInTransaction)
	for _, err := range admin.Entries(ctx, p.coll, admin.Query{}) {
		p.want(err, doclock.ErrInTransaction)
	}
	_, err = admin.Remove(ctx, p.coll, admin.Query{Owner: "x"})
	p.want(err, doclock.ErrInTransaction)
	_, err = admin.Sweep(ctx, p.coll)
	p.want(err, doclock.ErrInTransaction)
	_, err = admin.EnsureIndexes(ctx, p.coll, []string{"x"})
	p.want(err, doclock.ErrInTransaction)
	p.sends("refused calls")
}
