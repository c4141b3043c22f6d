package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// A Go map of several keys has no order, and so names another document each time, in the
// _id, in a field of the shard key, and below. Every call that takes a filter refuses it;
// a bson.D and a struct are right, and end with the context. internal/engine has what else
// is a map.
func TestAMapNamesNoDocument(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.WritePreferring(), doclock.ShardKey("place"))
		token := p.detach(p.try(p.locker(p.coll, relations.WritePreferring()), "write"))
		ctx, end := context.WithCancel(p.Context())
		end()
		key, write := admin.ShardKey("place"), admin.Query{Tags: []string{"write"}}
		all := map[string]func(filter any) error{
			"TryAcquire": func(f any) error { return errOf(l.TryAcquire(ctx, f, "write")) },
			"Acquire":    func(f any) error { return errOf(l.Acquire(ctx, f, "write")) },
			"claim":      func(f any) error { return errOf(l.Acquire(ctx, f, "write", doclock.SkipLocked())) },
			"Enqueue":    func(f any) error { return errOf(l.Enqueue(ctx, f, "write")) },
			"Do": func(f any) error {
				return l.Do(ctx, f, "write", func(context.Context, doclock.Lease) error { return nil })
			},
			"Inspect": func(f any) error { return errOf(admin.Inspect(ctx, coll, f, key)) },
			"Remove":  func(f any) error { return errOf(admin.Remove(ctx, coll, write, key, admin.Within(f))) },
			"Sweep":   func(f any) error { return errOf(admin.Sweep(ctx, coll, key, admin.Within(f))) },
			"Entries": func(f any) (last error) {
				for _, err := range admin.Entries(ctx, coll, admin.Query{}, key, admin.Within(f)) {
					last = err
				}
				return last
			},
		}
		named := map[string]func(filter any) error{ // they need one that names a document
			"AcquireAll": func(f any) error { return errOf(multilock.AcquireAll(ctx, l.Want(f, "write"))) },
			"Resume":     func(f any) error { return errOf(l.Resume(ctx, f, token)) },
			"Touch":      func(f any) error { return l.Touch(ctx, f, token) },
		}
		rapid.Check(p, func(t *rapid.T) {
			f := drawFilter(t)
			check := func(name string, err error, sent int) {
				refused := errors.Is(err, doclock.ErrInvalidArgument) && strings.Contains(err.Error(), "bson.D") && sent == 0
				if refused == f.ordered || f.ordered && !errors.Is(err, context.Canceled) {
					t.Errorf("%s of %#v, with an order: %t: %v, %d commands", name, f.filter, f.ordered, err, sent)
				}
			}
			for _, calls := range []map[string]func(any) error{all, named} {
				for name, call := range calls {
					if before := w.Count(); f.named || all[name] != nil {
						err := call(f.filter)
						check(name, err, w.Count()-before)
					}
				}
			}
		})
	})
}

// drawn is a filter, or a value in it.
type drawn struct {
	filter  any
	ordered bool // none of its maps has several fields
	named   bool // it demands an equal _id and shard key
}

func drawFilter(t *rapid.T) drawn {
	v := drawValue(t, 3)
	v.named = true
	id, place := any(1), any("Bern")
	if rapid.Bool().Draw(t, "in the shard key") {
		place = v.filter
	} else {
		id = v.filter
	}
	switch rapid.SampledFrom([]string{"map", "D", "struct", "pointer", "$and", "$eq"}).Draw(t, "filter") {
	case "map":
		v.filter = bson.M{"_id": id, "place": place}
	case "D":
		v.filter = bson.D{{Key: "place", Value: place}, {Key: "_id", Value: id}}
	case "struct":
		v.filter = struct {
			ID    any `bson:"_id"`
			Place any
		}{id, place}
	case "pointer":
		v.filter = &map[string]any{"_id": id, "place": place}
	case "$and":
		v.named, v.filter = false, bson.M{"$and": []bson.M{{"_id": id}, {"place": place}}}
	case "$eq":
		v.named, v.filter = false, bson.D{{Key: "_id", Value: bson.M{"$eq": id}}, {Key: "place", Value: bson.M{"$eq": place, "$gt": 0}}}
	}
	return v
}

func drawValue(t *rapid.T, depth int) drawn {
	kinds := []string{"text", "number"}
	if depth > 0 {
		kinds = append(kinds, "M", "D", "texts", "struct", "array", "pointer")
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	v := drawn{ordered: true}
	var below []any
	if slices.Contains([]string{"M", "D", "struct", "array", "pointer"}, kind) {
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			b := drawValue(t, depth-1)
			below, v.ordered = append(below, b.filter), v.ordered && b.ordered
		}
	}
	m, d := bson.M{}, bson.D{}
	for i, b := range below {
		name := string(rune('a' + i))
		m[name], d = b, append(d, bson.E{Key: name, Value: b})
	}
	switch kind {
	case "text":
		v.filter = "mail"
	case "number":
		v.filter = 7
	case "M":
		v.filter, v.ordered = m, v.ordered && len(m) <= 1
	case "pointer":
		v.filter, v.ordered = &m, v.ordered && len(m) <= 1
	case "D":
		v.filter = d
	case "texts":
		texts := map[string]string{"group": "mail", "name": "nightly"}
		if v.ordered = rapid.Bool().Draw(t, "one"); v.ordered {
			delete(texts, "name")
		}
		v.filter = texts
	case "struct":
		v.filter = struct {
			Group string
			More  []any
		}{"mail", below}
	case "array":
		v.filter = append(bson.A{}, below...)
	}
	return v
}
