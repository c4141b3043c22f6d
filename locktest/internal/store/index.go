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

// checkUnique refuses a document whose keys another one has. Arrays are compared
// by their least element, where a server compares each.
func (c *collection) checkUnique(document bson.RawValue, itself *record) error {
	for _, keys := range c.unique {
		if slices.ContainsFunc(c.records, func(r *record) bool { return r != itself && stage.Order(keys, r.document, document) == 0 }) {
			return value.Refuse(value.DuplicateKey, "E11000 duplicate key error, index: %s", keys)
		}
	}
	return nil
}
