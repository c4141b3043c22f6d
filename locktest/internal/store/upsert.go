package store

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/update"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// upsert inserts the document that a filter's equalities and an update make. One that waits inserts the same afterwards, also
// if the filter then matches a document, unless the filter asks for nothing but the key.
func (c *command) upsert(filter bson.RawValue, u update.Update) (made bson.RawValue, err error) {
	if made = c.made; value.IsMissing(made) {
		if made, err = madeOf(filter, u); err != nil {
			return value.Missing, err
		}
	}
	if err = c.insert(made); errors.Is(err, errWaits) && !c.isKey(filter) {
		c.made = made
	}
	return made, err
}

// isKey reports whether a filter asks for the values of a unique index's fields, and for nothing else.
func (c *command) isKey(filter bson.RawValue) bool {
	var paths []string
	equalities(filter, func(path string, _ bson.RawValue) { paths = append(paths, path) })
	slices.Sort(paths)
	asks := func(u index) bool {
		names := value.Names(u.keys)
		slices.Sort(names)
		return u.unique && slices.Equal(names, paths)
	}
	return len(paths) == len(value.Open(filter)) && (slices.Equal(paths, []string{"_id"}) || slices.ContainsFunc(c.collection().indexes, asks))
}

// madeOf is the document that an upsert inserts.
func madeOf(filter bson.RawValue, u update.Update) (bson.RawValue, error) {
	made, err := fromEqualities(filter, u.Replaces())
	if err != nil {
		return value.Missing, err
	}
	u.Insert = true
	if made, _, err = u.Apply(made); err != nil {
		return value.Missing, err
	}
	if d := value.Open(made); value.IsMissing(d.Get("_id")) {
		made = append(value.Document{{Key: "_id", Value: value.Of(bson.NewObjectID())}}, d...).Close()
	}
	return made, nil
}

// fromEqualities is a document with the values that a filter asks for, or with the
// _id only.
func fromEqualities(filter bson.RawValue, onlyID bool) (bson.RawValue, error) {
	var fields value.Document
	equalities(filter, func(path string, v bson.RawValue) {
		if !onlyID || path == "_id" || strings.HasPrefix(path, "_id.") {
			fields = append(fields, value.Field{Key: path, Value: v})
		}
	})
	slices.SortStableFunc(fields, func(a, b value.Field) int { return cmp.Compare(a.Key, b.Key) })
	if onlyID && len(fields) > 0 && fields[len(fields)-1].Key != "_id" {
		return value.Missing, value.Refuse(54, "field '_id' cannot be specified as %s: an upsert that replaces needs all of it", fields[len(fields)-1].Key)
	}
	for i, f := range fields[min(1, len(fields)):] {
		if before := fields[i].Key; f.Key == before || strings.HasPrefix(f.Key, before+".") {
			return value.Missing, value.Refuse(54, "cannot infer query fields to set, path '%s' is matched twice", before)
		}
	}
	if len(fields) == 0 {
		return fields.Close(), nil
	}
	set := update.Update{Spec: value.Document{{Key: "$set", Value: fields.Close()}}.Close()}
	made, _, err := set.Apply(value.Document{}.Close())
	return made, err
}

// equalities calls found for each path that a filter wants to equal a value.
func equalities(filter bson.RawValue, found func(path string, v bson.RawValue)) {
	for key, v := range value.Fields(filter) {
		joint := value.Elements(v)
		switch {
		case key == "$and" || key == "$or" && len(joint) == 1:
			for _, part := range joint {
				equalities(part, found)
			}
		case strings.HasPrefix(key, "$") || v.Type == bson.TypeRegex:
		case !query.IsOperators(v):
			found(key, v)
		default:
			if equal := value.Get(v, "$eq"); !value.IsMissing(equal) {
				found(key, equal)
			}
			alternatives := value.Elements(value.Get(v, "$in"))
			if len(alternatives) > 1 {
				alternatives = nil
			}
			for _, equal := range append(alternatives, value.Elements(value.Get(v, "$all"))...) {
				if !query.IsOperators(equal) && equal.Type != bson.TypeRegex {
					found(key, equal)
				}
			}
		}
	}
}
