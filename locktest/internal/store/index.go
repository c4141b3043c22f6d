package store

import (
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// index is one of a collection's. That of the _id is not among them.
type index struct {
	name           string
	keys           bson.RawValue
	unique, sparse bool
}

// checkIndexes finds which indexes are to be made, and refuses what no index can be, or not beside those that are there. The
// server does so before it waits for anything.
func (c *command) checkIndexes() error {
	if len(value.Elements(c.Get("indexes"))) == 0 {
		return value.Refuse(value.BadValue, "Must specify at least one index to create")
	}
	for _, spec := range value.Elements(c.Get("indexes")) {
		if value.IsMissing(value.Get(spec, "name")) {
			return value.Refuse(value.FailedToParse, "The 'name' field is a required property of an index specification")
		}
		for _, effect := range []string{"expireAfterSeconds", "partialFilterExpression", "collation"} {
			if v := value.Get(spec, effect); !value.IsMissing(v) && (value.IsNumber(v) || value.Truth(v)) {
				return value.Unsupported("an index with %s", effect)
			}
		}
		i := index{value.Text(value.Get(spec, "name")), value.Get(spec, "key"), value.Truth(value.Get(spec, "unique")), value.Truth(value.Get(spec, "sparse"))}
		if err := checkKeys(i.keys, i.unique); err != nil {
			return err
		}
		if i.unique && i.sparse {
			return value.Unsupported("an index that is sparse and unique")
		}
		there, err := i.among(slices.Concat(c.collection().indexes, c.indexes))
		if err != nil {
			return err
		}
		if !there {
			c.indexes = append(c.indexes, i)
		}
	}
	return nil
}

// among reports whether an index is there, and refuses one that differs in its name alone, or has its name and differs.
func (i index) among(all []index) (bool, error) {
	for _, other := range all {
		same := value.Equal(i.keys, other.keys) && i.unique == other.unique && i.sparse == other.sparse
		switch {
		case i.name == other.name && same:
			return true, nil
		case i.name == other.name:
			return false, value.Refuse(86, "An existing index has the same name as the requested index: %s", i.name)
		case same:
			return false, value.Refuse(85, "Index already exists with a different name: %s", other.name)
		}
	}
	return false, nil
}

// createIndexes makes all indexes, or none. Only unique ones have an effect: no find is faster by an index.
func (c *command) createIndexes() (value.Document, error) {
	if len(c.indexes) == 0 {
		return nil, nil
	}
	if err := c.ensure(); err != nil {
		return nil, err
	}
	coll := c.store.own(c.namespace())
	before := coll.indexes
	coll.indexes = append(slices.Clip(before), c.indexes...)
	for _, r := range coll.records {
		if err := coll.checkUnique(r.document); err != nil {
			coll.indexes = before
			return nil, err
		}
	}
	c.Changed = true
	return nil, nil
}

// checkKeys refuses keys that no index can have, or that a unique one can't have.
func checkKeys(keys bson.RawValue, unique bool) error {
	for path, direction := range value.Fields(keys) {
		switch {
		case slices.Contains(strings.Split(path, "."), "") || value.IsNumber(direction) && !value.Truth(direction):
			return value.Refuse(value.CannotCreateIndex, "an index needs names and directions other than 0: %s", keys)
		case unique && (!value.IsNumber(direction) || strings.Contains(path, "$")):
			return value.Unsupported("a unique index on %s", keys)
		}
	}
	if len(value.Open(keys)) == 0 {
		return value.Refuse(value.CannotCreateIndex, "an index needs at least one key")
	}
	return nil
}

// duplicate is the refusal of an entry that another document has in an index.
func (c *collection) duplicate(i index, entry value.Document) error {
	refusal := value.Refuse(value.DuplicateKey, "E11000 duplicate key error collection: %s index: %s dup key: %s", c.namespace, i.name, entry.Close())
	refusal.More = value.Document{{Key: "keyPattern", Value: i.keys}, {Key: "keyValue", Value: entry.Close()}}
	return refusal
}

// checkUnique refuses a document that has an entry of another one in a unique index.
func (c *collection) checkUnique(document bson.RawValue) error {
	for _, u := range c.indexes {
		if !u.unique {
			continue
		}
		mine, ok := stage.Entries(u.keys, document)
		if !ok {
			return value.Refuse(171, "cannot index parallel arrays, index: %s", u.keys)
		}
		for _, r := range c.records {
			if value.Equal(value.Get(r.document, "_id"), value.Get(document, "_id")) {
				continue // it is the document itself
			}
			if entry := common(u.keys, mine, r.document); entry != nil {
				return c.duplicate(u, entry)
			}
		}
	}
	return nil
}

// common is one of the entries that is also another document's, or nil.
func common(keys bson.RawValue, mine [][]bson.RawValue, other bson.RawValue) value.Document {
	theirs, _ := stage.Entries(keys, other)
	for _, entry := range mine {
		if !slices.ContainsFunc(theirs, func(e []bson.RawValue) bool { return slices.EqualFunc(e, entry, value.Equal) }) {
			continue
		}
		var d value.Document
		for path := range value.Fields(keys) {
			d = append(d, value.Field{Key: path, Value: entry[len(d)]})
		}
		return d
	}
	return nil
}
