package store

import (
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// index is a unique one.
type index struct {
	name string
	keys bson.RawValue
}

// checkIndexes refuses what no index can be. The server does so before it waits for anything.
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
		unique := value.Truth(value.Get(spec, "unique"))
		if err := checkKeys(value.Get(spec, "key"), unique); err != nil {
			return err
		}
		if unique && value.Truth(value.Get(spec, "sparse")) {
			return value.Unsupported("an index that is sparse and unique")
		}
	}
	return nil
}

// createIndexes keeps the unique ones. The others only make finds faster, and
// nothing is slow here.
func (c *command) createIndexes() (value.Document, error) {
	for _, spec := range value.Elements(c.Get("indexes")) {
		if err := c.ensure(); err != nil {
			return nil, err
		}
		if !value.Truth(value.Get(spec, "unique")) {
			continue
		}
		coll := c.store.own(c.namespace())
		c.Changed = true
		coll.unique = append(coll.unique, index{value.Text(value.Get(spec, "name")), value.Get(spec, "key")})
		for _, r := range coll.records {
			if err := coll.checkUnique(r.document); err != nil {
				coll.unique = coll.unique[:len(coll.unique)-1]
				return nil, err
			}
		}
	}
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
func (c *collection) duplicate(index string, entry value.Document) error {
	return value.Refuse(value.DuplicateKey, "E11000 duplicate key error collection: %s index: %s dup key: %s", c.namespace, index, entry.Close())
}

// checkUnique refuses a document that has an entry of another one in a unique index.
func (c *collection) checkUnique(document bson.RawValue) error {
	for _, u := range c.unique {
		mine, ok := stage.Entries(u.keys, document)
		if !ok {
			return value.Refuse(171, "cannot index parallel arrays, index: %s", u.keys)
		}
		for _, r := range c.records {
			if value.Equal(value.Get(r.document, "_id"), value.Get(document, "_id")) {
				continue // it is the document itself
			}
			if entry := common(u.keys, mine, r.document); entry != nil {
				return c.duplicate(u.name, entry)
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
