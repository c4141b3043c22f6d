package multilock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// namespace stands for the name of the test's collection.
const namespace = "DB.COLL"

// wantNotFound fails unless err says this.
func (p *place) wantNotFound(name string, err error, want string) {
	p.Helper()
	p.want(err, doclock.ErrNotFound, doclock.ErrNotAcquired)
	text := strings.ReplaceAll(err.Error(), p.coll.Database().Name()+"."+p.coll.Name(), namespace)
	if text != want && !(strings.HasSuffix(want, "; conflict: ") && strings.HasPrefix(text, want)) {
		p.Errorf("%s: %s, want\n%s", name, text, want)
	}
}

// An acquire that finds no document says where it has looked and for what, and what
// the caller may have meant.
func TestNotFoundSaysWhatWasLookedFor(t *testing.T) {
	const (
		hex       = "660000000000000000000001"
		upsert    = "; doclock.Upsert() would make it"
		objectID  = "; the _id is a string: should it be an ObjectID?"
		notAmong  = "doclock: not acquired: no such document: " + namespace + " has none "
		ofAnother = "with _id 1 that matches the whole filter"
	)
	id, err := bson.ObjectIDFromHex(hex)
	must(t, err)
	claim, sharded := doclock.SkipLocked(), doclock.ShardKey("country")
	virtual(t, func(p *place) {
		for name, c := range map[string]struct {
			filter any
			opts   []doclock.AcquireOption
			locker []doclock.Option
			want   string
		}{
			"a string":           {doclock.ID("A-71"), nil, nil, notAmong + `with _id "A-71"` + upsert},
			"a number":           {doclock.ID(7), nil, nil, notAmong + `with _id 7` + upsert},
			"an ObjectID":        {doclock.ID(id), nil, nil, notAmong + `with _id {"$oid":"` + hex + `"}` + upsert},
			"its digits":         {doclock.ID(hex), nil, nil, notAmong + `with _id "` + hex + `"` + objectID + upsert},
			"its digits, and no": {doclock.ID(hex + "0"), nil, nil, notAmong + `with _id "` + hex + `0"` + upsert},
			"more than the _id":  {bson.M{"_id": 1, "state": "new"}, nil, nil, notAmong + ofAnother},
			"digits and more":    {bson.D{{Key: "_id", Value: hex}, {Key: "n", Value: 1}}, nil, nil, notAmong + `with _id "` + hex + `" that matches the whole filter` + objectID},
			"another filter":     {bson.M{"state": "new"}, nil, nil, notAmong + `that matches {"state":"new"}`},
			"a range":            {bson.M{"_id": bson.M{"$gt": 7}}, nil, nil, notAmong + `that matches {"_id":{"$gt":7}}`},
			"no shard key":       {doclock.ID(hex), nil, []doclock.Option{sharded}, notAmong + `that matches {"_id":"` + hex + `"}` + objectID},
			"a shard key":        {bson.D{{Key: "_id", Value: 1}, {Key: "country", Value: "FR"}}, nil, []doclock.Option{sharded}, notAmong + `with _id 1 and this shard key` + upsert},
			"a long _id":         {doclock.ID(strings.Repeat("ü", 500)), nil, nil, notAmong + `with _id "` + strings.Repeat("ü", 59) + "…" + upsert},
			"a long filter":      {bson.M{"s": strings.Repeat("x", 500)}, nil, nil, notAmong + `that matches {"s":"` + strings.Repeat("x", 114) + "…"},
			"a claim, no match":  {bson.M{"state": "new"}, []doclock.AcquireOption{claim}, nil, notAmong + `that matches {"state":"new"}`},
			"a claim of one":     {doclock.ID(7), []doclock.AcquireOption{claim}, nil, notAmong + `with _id 7`},
		} {
			_, err := p.plain(relations.Fair(), c.locker...).TryAcquire(p.Context(), c.filter, "write", c.opts...)
			p.wantNotFound(name, err, c.want)
		}
		p.Delete()
		for name, ask := range asks {
			p.wantNotFound(name, errOf(ask(p.plain(relations.Fair()), p.Context(), flowers, "write")), notAmong+"with _id 1"+upsert)
		}
	})
}

// A want has named the document already. A claim that meets a held document says that
// none is free.
func TestNotFoundElsewhere(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		_, err := multilock.AcquireAll(p.Context(), l.Want(doclock.ID(1), "write"), l.Want(doclock.ID(7), "write"))
		p.wantNotFound("AcquireAll", err, `doclock: wants[1], "write" on document 7 of `+namespace+`: not acquired: no such document; doclock.Upsert() would make it`)
		p.wantNotFound("its want", errors.Unwrap(err), "doclock: not acquired: no such document: "+namespace+" has none with _id 7; doclock.Upsert() would make it")

		p.try(l, "write")
		_, err = l.TryAcquire(p.Context(), bson.M{"_id": bson.M{"$lt": 2}}, "write", doclock.SkipLocked())
		p.wantNotFound("a claim", err, "doclock: not acquired: no such document: none of "+namespace+` that matches {"_id":{"$lt":2}} is free; conflict: `)
	})
}
