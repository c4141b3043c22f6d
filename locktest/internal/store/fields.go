package store

import (
	"slices"

	"github.com/doclock/doclock/locktest/internal/value"
)

// without are the fields of commands that have no effect here: they are dealt with before, or there is nothing slow, and no
// validator. (Without members, a read concern that needs them is refused.)
var without = []string{
	"$db", "lsid", "txnNumber", "autocommit", "startTransaction", "$clusterTime", "$readPreference", "readConcern", "writeConcern", "maxTimeMS", "comment", "hint",
	"bypassDocumentValidation", "apiVersion", "apiStrict", "apiDeprecationErrors", "collation", "let",
}

// fields are those that a command knows beside these.
var fields = map[string][]string{
	"find":          {"filter", "projection", "sort", "skip", "limit", "batchSize", "singleBatch", "allowDiskUse", "noCursorTimeout"},
	"aggregate":     {"pipeline", "cursor", "allowDiskUse"},
	"findAndModify": {"query", "update", "remove", "new", "fields", "sort", "upsert", "arrayFilters"},
	"insert":        {"documents", "ordered"},
	"update":        {"updates", "ordered"},
	"delete":        {"deletes", "ordered"},
	"count":         {"query", "skip", "limit"},
	"create":        {"viewOn", "pipeline", "validator", "validationLevel", "validationAction", "capped", "size", "max", "timeseries", "clusteredIndex"},
	"createIndexes": {"indexes", "commitQuorum"},
}

// statements are the fields of one statement of a command that has several. The
// first two must be there.
var statements = map[string][]string{
	"updates": {"q", "u", "multi", "upsert", "arrayFilters", "collation", "hint"},
	"deletes": {"q", "limit", "collation", "hint"},
}

// refuseFields refuses what a command has beside the fields that are known.
func refuseFields(d value.Document, where string, known ...[]string) error {
	for _, f := range d {
		if !slices.Contains(slices.Concat(known...), f.Key) {
			return value.Unsupported("the field %q of %s", f.Key, where)
		}
	}
	if !value.IsMissing(value.Get(d.Get("hint"), "$natural")) {
		return value.Unsupported("a hint of $natural")
	}
	if c := d.Get("collation"); !value.IsMissing(c) && value.Text(value.Get(c, "locale")) != "simple" {
		return value.Unsupported("collations")
	}
	return nil
}
