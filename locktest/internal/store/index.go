package store

import (
	"slices"

	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// createIndexes keeps the unique ones. The others only make finds faster, and
// nothing is slow here.
func (c *command) createIndexes() (value.Document, error) {
	for _, index := range value.Elements(c.Get("indexes")) {
		for _, effect := range []string{"expireAfterSeconds", "partialFilterExpression", "collation"} {
			if v := value.Get(index, effect); !value.IsMissing(v) && (value.IsNumber(v) || value.Truth(v)) {
				return nil, value.Unsupported("an index with %s", effect)
			}
		}
		coll := c.made()
		if !value.Truth(value.Get(index, "unique")) {
			continue
		}
		if value.Truth(value.Get(index, "sparse")) {
			return nil, value.Unsupported("an index that is sparse and unique")
		}
		coll.unique = append(coll.unique, value.Get(index, "key"))
		for _, r := range coll.records {
			if err := coll.checkUnique(r.document, r); err != nil {
				coll.unique = coll.unique[:len(coll.unique)-1]
				return nil, err
			}
		}
	}
	return nil, nil
}

// checkUnique refuses a document that has an entry of another one in a unique index.
func (c *collection) checkUnique(document bson.RawValue, itself *record) error {
	for _, keys := range c.unique {
		mine, ok := stage.Entries(keys, document)
		if !ok {
			return value.Refuse(171, "cannot index parallel arrays, index: %s", keys)
		}
		for _, r := range c.records {
			if r != itself && meet(keys, mine, r.document) {
				return value.Refuse(value.DuplicateKey, "E11000 duplicate key error, index: %s", keys)
			}
		}
	}
	return nil
}

// meet reports whether one of the entries is also another document's.
func meet(keys bson.RawValue, mine [][]bson.RawValue, other bson.RawValue) bool {
	theirs, _ := stage.Entries(keys, other)
	for _, entry := range mine {
		if slices.ContainsFunc(theirs, func(e []bson.RawValue) bool { return slices.EqualFunc(e, entry, value.Equal) }) {
			return true
		}
	}
	return false
}
