package store

import (
	"math"
	"strings"

	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// cursor is the reply that has all documents at once.
func (c *command) cursor(documents []bson.RawValue) value.Document {
	return value.Document{{Key: "cursor", Value: value.Document{
		{Key: "firstBatch", Value: value.Array(documents)},
		{Key: "id", Value: value.Long(0)},
		{Key: "ns", Value: value.String(c.namespace())},
	}.Close()}}
}

func (c *command) find() (value.Document, error) {
	if _, _, err := c.amounts(); err != nil {
		return nil, err
	}
	if _, err := amount(c.Get("batchSize"), "batchSize", 0); err != nil {
		return nil, err
	}
	if err := c.query.Check(c.Get("filter")); err != nil {
		return nil, err
	}
	projection, err := stage.ParseProjection(c.Get("projection"))
	if err != nil {
		return nil, err
	}
	if err := projection.Fold(c.query); err != nil {
		return nil, err
	}
	documents, err := c.found(c.Get("filter"))
	if err != nil {
		return nil, err
	}
	for i, d := range documents {
		if documents[i], err = projection.Of(d, c.query); err != nil {
			return nil, err
		}
	}
	return c.cursor(documents), nil
}

// amounts are how many documents are to be left out, and kept. 0 is all.
func (c *command) amounts() (skip, limit int64, err error) {
	if skip, err = amount(c.Get("skip"), "skip", 0); err != nil {
		return 0, 0, err
	}
	limit, err = amount(c.Get("limit"), "limit", math.MinInt32)
	return skip, max(limit, -limit), err
}

// found are the documents that a filter matches, sorted and cut as the command
// asks.
func (c *command) found(filter bson.RawValue) ([]bson.RawValue, error) {
	records, err := c.collection().matching(c.query, filter, 0)
	if err != nil {
		return nil, err
	}
	documents := make([]bson.RawValue, len(records))
	for i, r := range records {
		documents[i] = r.document
	}
	if keys := c.Get("sort"); !value.IsMissing(keys) {
		if err := sort(keys, documents); err != nil {
			return nil, err
		}
	}
	skip, limit, err := c.amounts()
	return cut(documents, skip, limit), err
}

func sort(keys bson.RawValue, documents []bson.RawValue) error {
	return stage.Sort(keys, documents, func(d bson.RawValue) bson.RawValue { return d })
}

// amount is how many documents are to be left out or kept; 0 if that is missing.
func amount(v bson.RawValue, of string, least int64) (int64, error) {
	n, whole := value.Whole(v)
	if !value.IsMissing(v) && (!whole || n < least) {
		return 0, value.Refuse(51024, "the %s must be a whole number of at least %d: %s", of, least, v)
	}
	return n, nil
}

// cut leaves documents out at the beginning, and those over a limit. 0 is none.
func cut(documents []bson.RawValue, skip, limit int64) []bson.RawValue {
	documents = documents[min(skip, int64(len(documents))):]
	if limit > 0 && limit < int64(len(documents)) {
		documents = documents[:limit]
	}
	return documents
}

func (c *command) count() (value.Document, error) {
	documents, err := c.found(c.Get("query"))
	return value.Document{{Key: "n", Value: value.Int(int32(len(documents)))}}, err
}

// aggregate knows the stages that change, match, sort and cut, and the one that
// counts.
func (c *command) aggregate() (value.Document, error) {
	if _, named := c.Document[0].Value.StringValueOK(); !named {
		return nil, value.Unsupported("the aggregation of a database")
	}
	if value.IsMissing(c.Get("cursor")) {
		return nil, value.Refuse(value.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument")
	}
	stages := value.Elements(c.Get("pipeline"))
	if !value.IsArray(c.Get("pipeline")) {
		return nil, value.Refuse(value.TypeMismatch, "the pipeline is of type %s, and must be an array", value.TypeName(c.Get("pipeline")))
	}
	for _, spec := range stages {
		if !value.IsDocument(spec) {
			return nil, value.Refuse(value.TypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
		if err := c.checkStage(spec); err != nil {
			return nil, err
		}
	}
	for i, spec := range stages {
		var err error
		if stages[i], err = stage.Fold(spec, c.query); err != nil {
			return nil, err
		}
	}
	first := value.Document{}.Close()
	if len(stages) > 0 && stage.Name(stages[0]) == "$match" { // it may find by _id
		first, stages = value.Get(stages[0], "$match"), stages[1:]
	}
	documents, err := c.found(first)
	if err != nil {
		return nil, err
	}
	for _, spec := range stages {
		name := stage.Name(spec)
		operand := value.Get(spec, name)
		switch name {
		case "$match":
			documents, err = c.matched(operand, documents)
		case "$sort":
			err = sort(operand, documents)
		case "$limit":
			n, _ := value.Whole(operand)
			documents = cut(documents, 0, n)
		case "$skip":
			n, _ := value.Whole(operand)
			documents = cut(documents, n, 0)
		case "$count":
			if len(documents) > 0 {
				documents = []bson.RawValue{value.Document{{Key: value.Text(operand), Value: value.Int(int32(len(documents)))}}.Close()}
			}
		case "$group":
			documents, err = c.grouped(operand, documents)
		default:
			for i, d := range documents {
				if documents[i], err = stage.Change(spec, d, c.query); err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return c.cursor(documents), nil
}

// checkStage refuses a stage that is not known, also where there are no documents.
func (c *command) checkStage(spec bson.RawValue) error {
	name := stage.Name(spec)
	operand := value.Get(spec, name)
	switch name {
	case "$match":
		if !value.IsDocument(operand) {
			return value.Refuse(15959, "the match filter must be an expression in an object")
		}
		return c.query.Check(operand)
	case "$count":
		return checkCount(operand)
	case "$sort":
		switch {
		case !value.IsDocument(operand):
			return value.Refuse(15973, "the $sort key specification must be an object")
		case len(value.Open(operand)) == 0:
			return value.Refuse(15976, "$sort stage must have at least one sort key")
		}
		return nil
	case "$limit", "$skip":
		n, whole := value.Whole(operand)
		switch {
		case !whole || n < 0:
			return value.Refuse(map[string]int32{"$skip": 5107200, "$limit": 5107201}[name], "invalid argument to %s stage: Expected a positive integer: %s", name, operand)
		case n == 0 && name == "$limit":
			return value.Refuse(15958, "the limit must be positive")
		}
		return nil
	case "$group":
		return nil
	default:
		return stage.Check(spec)
	}
}

func checkCount(operand bson.RawValue) error {
	name, ok := operand.StringValueOK()
	switch {
	case !ok:
		return value.Refuse(40156, "the count field must be a non-empty string")
	case name == "":
		return value.Refuse(40157, "the count field must be a non-empty string")
	case name[0] == '$':
		return value.Refuse(40158, "the count field cannot be a $-prefixed path")
	case strings.Contains(name, "\x00"):
		return value.Refuse(40159, "the count field cannot contain '\\0'")
	case strings.Contains(name, "."):
		return value.Refuse(40160, "the count field cannot contain '.'")
	}
	return nil
}

func (c *command) matched(filter bson.RawValue, documents []bson.RawValue) (kept []bson.RawValue, err error) {
	if err := c.query.Check(filter); err != nil {
		return nil, err
	}
	for _, d := range documents {
		matches, err := c.query.Match(filter, d)
		if err != nil {
			return nil, err
		}
		if matches {
			kept = append(kept, d)
		}
	}
	return kept, nil
}

// grouped counts all documents, as the driver's CountDocuments does. No other
// group is known.
func (c *command) grouped(spec bson.RawValue, documents []bson.RawValue) ([]bson.RawValue, error) {
	id, group := value.Get(spec, "_id"), value.Open(spec).Set("_id", value.Missing)
	if len(group) != 1 || !value.IsNumber(id) || stage.Name(group[0].Value) != "$sum" || !value.Equal(value.Get(group[0].Value, "$sum"), value.Int(1)) {
		return nil, value.Unsupported("the pipeline stage $group")
	}
	if len(documents) == 0 {
		return nil, nil
	}
	n, err := value.Multiply(value.Get(group[0].Value, "$sum"), value.Int(int32(len(documents)))) // of the type of its 1
	return []bson.RawValue{value.Document{{Key: "_id", Value: id}, {Key: group[0].Key, Value: n}}.Close()}, err
}
