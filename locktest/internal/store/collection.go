package store

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// collection has documents in the order in which they were inserted.
type collection struct {
	namespace string
	records   []*record
	byID      map[string][]*record
	indexes   []index
	shared    bool // with a copy of the store
}

// record is one document. It never changes.
type record struct{ document bson.RawValue }

// bucket is equal for equal values. A few others may have the same.
func bucket(v bson.RawValue) string {
	switch {
	case v.Type == bson.TypeDecimal128:
		f, _ := strconv.ParseFloat(v.Decimal128().String(), 64)
		return "n" + strconv.FormatFloat(f+0, 'g', -1, 64)
	case value.IsNumber(v):
		return "n" + strconv.FormatFloat(value.Float(v)+0, 'g', -1, 64)
	case value.IsDocument(v) || value.IsArray(v):
		var all strings.Builder
		for key, field := range value.Fields(v) {
			all.WriteString(key + "\x00" + bucket(field) + "\x00")
		}
		return value.TypeName(v) + all.String()
	case value.IsNullish(v):
		return value.TypeName(v)
	case v.Type == bson.TypeSymbol:
		return string(rune(bson.TypeString)) + string(v.Value)
	default:
		return string(rune(v.Type)) + string(v.Value)
	}
}

// candidates are the documents among which those are that a filter matches: all, if it names no _id, and no list of them.
func (c *collection) candidates(filter bson.RawValue) []*record {
	id := value.Get(filter, "_id")
	if isExact(id) {
		return c.byID[bucket(id)]
	}
	listed := value.Elements(value.Get(id, "$in"))
	if len(listed) == 0 || !query.IsOperators(id) || slices.ContainsFunc(listed, func(id bson.RawValue) bool { return !isExact(id) }) {
		return c.records
	}
	named := map[*record]bool{}
	for _, id := range listed {
		for _, r := range c.byID[bucket(id)] {
			named[r] = true
		}
	}
	var found []*record
	for _, r := range c.records { // in their order
		if named[r] {
			found = append(found, r)
		}
	}
	return found
}

// isExact says that a condition on an _id is a value which only that _id equals.
func isExact(id bson.RawValue) bool {
	return !value.IsMissing(id) && !value.IsNullish(id) && id.Type != bson.TypeRegex && !query.IsOperators(id)
}

// matching are the documents that a filter matches, at most limit; 0 is all.
func (c *collection) matching(q query.Query, filter bson.RawValue, limit int) ([]*record, error) {
	if err := q.Check(filter); err != nil {
		return nil, err
	}
	var found []*record
	for _, r := range c.candidates(filter) {
		matches, err := q.Match(filter, r.document)
		if err != nil {
			return nil, err
		}
		if matches {
			found = append(found, r)
		}
		if limit > 0 && len(found) == limit {
			break
		}
	}
	return found, nil
}

// largest is the size of the largest document that is stored.
const largest = 16 << 20

// insert stores a new document, with its _id first.
func (c *command) insert(document bson.RawValue) error {
	d := value.Open(document)
	id := d.Get("_id")
	if value.IsMissing(id) {
		id = value.Of(bson.NewObjectID())
	}
	if value.IsArray(id) || id.Type == bson.TypeRegex || id.Type == bson.TypeUndefined {
		return value.Refuse(53, "The '_id' value cannot be of type %s", value.TypeName(id))
	}
	for name := range value.Fields(id) {
		if strings.HasPrefix(name, "$") {
			return value.Refuse(value.DollarPrefixed, "_id fields may not contain '$'-prefixed fields: %s is not valid for storage.", name)
		}
	}
	if err := c.ensure(); err != nil {
		c.Inserts = true
		return err
	}
	if coll := c.collection(); coll.find(id) != nil {
		return coll.duplicate(index{name: "_id_", keys: value.Of(bson.D{{Key: "_id", Value: 1}})}, value.Document{{Key: "_id", Value: id}})
	}
	d = append(value.Document{{Key: "_id", Value: id}}, d.Set("_id", value.Missing)...)
	return c.put(value.Missing, d.Close())
}

// put stores a document in the place of another one, or of none.
func (c *command) put(before, after bson.RawValue) error {
	if bytes.Equal(before.Value, after.Value) {
		return nil
	}
	if err := c.collection().checkUnique(after); err != nil {
		return err
	}
	if len(after.Value) > largest {
		return value.Refuse(17419, "Resulting document after update is larger than %d", largest)
	}
	return c.change(before, after)
}

// find is the record with an _id, or nil.
func (c *collection) find(id bson.RawValue) *record {
	for _, r := range c.byID[bucket(id)] {
		if value.Equal(id, value.Get(r.document, "_id")) {
			return r
		}
	}
	return nil
}

// set has a record in the place of another one. Where there is none before, it is added; none after, removed.
func (c *collection) set(before, after *record) {
	if c.byID == nil {
		c.byID = map[string][]*record{}
	}
	of := before
	if before == nil {
		of = after
	}
	key := bucket(value.Get(of.document, "_id"))
	c.records, c.byID[key] = replaced(c.records, before, after), replaced(slices.Clone(c.byID[key]), before, after)
	if len(c.byID[key]) == 0 {
		delete(c.byID, key)
	}
}

func replaced(all []*record, before, after *record) []*record {
	i := slices.Index(all, before)
	switch {
	case before == nil:
		return append(all, after)
	case after == nil:
		return slices.Delete(all, i, i+1)
	}
	all[i] = after
	return all
}

// clone is a copy that can be changed.
func (c *collection) clone() *collection {
	return &collection{namespace: c.namespace, indexes: slices.Clone(c.indexes), records: slices.Clone(c.records), byID: maps.Clone(c.byID)}
}
