package engine

import (
	"context"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file makes the documents of acquires with Upsert. A document that was made can't
// be taken back: others may have locked it meanwhile, and have seen it. So none is made
// unless the filter matches it, which its conditions tell beforehand.

// insertAndModify makes the document that an acquire didn't find, and then
// sends the acquire again. One findAndModify with upsert would not do: if it
// loses the race to insert on DocumentDB, it answers with the document that it
// would have inserted, so every racer would be the first.
//
// The document is named by its identity alone: one that is there, and that the filter
// doesn't match, is left as it is. A racer may have made it in between, under a unique
// index: the second time it is there, or another one has a value that must be unique.
func (e *Engine) insertAndModify(ctx context.Context, f Filter, t *template, r Request) (*Image, Reading, error) {
	unlocked := bson.D{{Key: "$setOnInsert", Value: append(bson.D{{Key: e.field, Value: bson.D{}}}, f.made...)}}
	if sent, err := e.begin(ctx); err != nil {
		return nil, sent, err
	}
	for again := false; ; again = true {
		reply, refused := e.statements(ctx, forAcquire, "update", upsertOf(bson.D(f.Pin), unlocked))
		if refused != nil && !AsFailure(refused).Nothing {
			return nil, e.Clocks(), refused
		}
		img, sent, err := e.modify(ctx, forAcquire, f.doc, t, r)
		switch {
		case img != nil || err != nil:
			return img, sent, err
		case refused != nil && (again || !mongo.IsDuplicateKeyError(refused)):
			return nil, sent, refused
		case refused != nil:
			continue
		case reply.Lookup("upserted").Type == 0: // it was there
			return nil, sent, nil
		default:
			return nil, sent, race("the document was removed as soon as it was made")
		}
	}
}

// fresh are the fields that a document which Upsert makes has beside its identity and
// its lock, by the filter's equalities, and the first of its conditions that such a
// document doesn't meet, or may not.
func (e *Engine) fresh(pin Pin, fields []bson.RawElement) (made bson.D, unmet string) {
	paths := []string{e.field}
	for _, p := range pin {
		paths = append(paths, p.Key)
	}
	set := func(path string) bool {
		return slices.ContainsFunc(paths, func(other string) bool { return within(path, other) || within(other, path) })
	}
	var conditions []bson.RawElement
	for _, f := range fields {
		switch key := f.Key(); {
		case slices.ContainsFunc(pin, func(p bson.E) bool { return p.Key == key }), key == "$comment":
		case !strings.HasPrefix(key, "$") && isEquality(f.Value()) && !set(key):
			paths = append(paths, key)
			made = append(made, bson.E{Key: key, Value: f.Value()})
		default:
			conditions = append(conditions, f)
		}
	}
	for _, c := range conditions {
		key := c.Key()
		absent := !set(key) || within(key, e.field) && key != e.field
		if strings.HasPrefix(key, "$") || !absent || !meetsAbsent(c.Value()) {
			return made, key
		}
	}
	return made, ""
}

// meetsAbsent says that a field which is absent meets a condition, by operators of which
// that is certain.
func meetsAbsent(condition bson.RawValue) bool {
	operators, isDocument := condition.DocumentOK()
	elements, err := operators.Elements()
	null := func(v bson.RawValue) bool { return v.Type == bson.TypeNull || v.Type == bson.TypeUndefined }
	return isDocument && err == nil && !slices.ContainsFunc(elements, func(o bson.RawElement) bool {
		switch v := o.Value(); o.Key() {
		case "$ne":
			return null(v)
		case "$nin":
			array, isArray := v.ArrayOK()
			values, err := array.Values()
			return !isArray || err != nil || slices.ContainsFunc(values, null)
		case "$exists":
			exists, isBool := v.BooleanOK()
			return exists || !isBool
		default:
			return true
		}
	})
}
