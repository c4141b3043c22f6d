package store

import (
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
	unique    []index
}

// record is one document.
type record struct{ document bson.RawValue }

// bucket is equal for equal _ids. A few others may have the same.
func bucket(id bson.RawValue) string {
	switch {
	case id.Type == bson.TypeDecimal128:
		f, _ := strconv.ParseFloat(id.Decimal128().String(), 64)
		return "n" + strconv.FormatFloat(f+0, 'g', -1, 64)
	case value.IsNumber(id):
		return "n" + strconv.FormatFloat(value.Float(id)+0, 'g', -1, 64)
	case value.IsDocument(id) || value.IsArray(id) || value.IsNullish(id):
		return value.TypeName(id)
	case id.Type == bson.TypeSymbol:
		return string(rune(bson.TypeString)) + string(id.Value)
	default:
		return string(rune(id.Type)) + string(id.Value)
	}
}

// candidates are the documents among which those are that a filter matches.
func (c *collection) candidates(filter bson.RawValue) []*record {
	id := value.Get(filter, "_id")
	if value.IsMissing(id) || value.IsNullish(id) || id.Type == bson.TypeRegex || query.IsOperators(id) {
		return c.records
	}
	return c.byID[bucket(id)]
}

// matching are the documents that a filter matches, at most limit; 0 is all.
func (c *collection) matching(q query.Query, filter bson.RawValue, limit int) ([]*record, error) {
	if err := query.Check(filter); err != nil {
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
func (c *collection) insert(document bson.RawValue) error {
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
	key := bucket(id)
	for _, r := range c.byID[key] {
		if value.Equal(id, value.Get(r.document, "_id")) {
			return c.duplicate("_id_", value.Document{{Key: "_id", Value: id}})
		}
	}
	d = append(value.Document{{Key: "_id", Value: id}}, d.Set("_id", value.Missing)...)
	r := &record{}
	if err := c.put(r, d.Close()); err != nil {
		return err
	}
	c.records = append(c.records, r)
	if c.byID == nil {
		c.byID = map[string][]*record{}
	}
	c.byID[key] = append(c.byID[key], r)
	return nil
}

// put stores a record's document in another form.
func (c *collection) put(r *record, document bson.RawValue) error {
	if err := c.checkUnique(document, r); err != nil {
		return err
	}
	if len(document.Value) > largest {
		return value.Refuse(17419, "Resulting document after update is larger than %d", largest)
	}
	r.document = document
	return nil
}

// remove deletes documents.
func (c *collection) remove(records ...*record) {
	for _, r := range records {
		key := bucket(value.Get(r.document, "_id"))
		c.byID[key] = slices.DeleteFunc(c.byID[key], func(other *record) bool { return other == r })
		if len(c.byID[key]) == 0 {
			delete(c.byID, key)
		}
	}
	c.records = slices.DeleteFunc(c.records, func(r *record) bool { return slices.Contains(records, r) })
}
