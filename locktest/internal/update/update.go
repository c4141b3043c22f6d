package update

import (
	"cmp"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Update is one command's update.
type Update struct {
	Spec    bson.RawValue // operators, the stages of a pipeline, or a whole document
	Filters bson.RawValue // the array filters
	Query   query.Query
	Insert  bool // the document is being inserted
}

// Apply returns the document after the update.
func (u Update) Apply(document bson.RawValue) (after bson.RawValue, err error) {
	switch {
	case value.IsArray(u.Spec):
		after, err = u.pipeline(document)
	case query.IsOperators(u.Spec):
		after, err = u.classic(document)
	case value.IsDocument(u.Spec):
		after = replaced(document, u.Spec)
	default:
		return value.Missing, value.Refuse(value.FailedToParse, "an update is a document or an array, and not of type %s", value.TypeName(u.Spec))
	}
	if err != nil {
		return value.Missing, err
	}
	id := value.Get(document, "_id")
	if !value.IsMissing(id) && !value.Equal(id, value.Get(after, "_id")) {
		return value.Missing, value.Refuse(value.ImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	return after, nil
}

func (u Update) pipeline(before bson.RawValue) (bson.RawValue, error) {
	document := before
	var err error
	for _, spec := range value.Elements(u.Spec) {
		switch name := stage.Name(spec); name {
		case "$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith":
			if document, err = stage.Change(spec, document, u.Query); err != nil {
				return value.Missing, err
			}
		default:
			return value.Missing, value.Refuse(72, "%s is not allowed to be used within an update", name)
		}
	}
	if value.IsMissing(value.Get(document, "_id")) {
		return replaced(before, document), nil
	}
	return document, nil
}

// replaced is another document in the place of the old one: it keeps the _id.
func replaced(old, by bson.RawValue) bson.RawValue {
	d := value.Open(by)
	id := value.Get(old, "_id")
	if value.IsMissing(d.Get("_id")) && !value.IsMissing(id) {
		d = append(value.Document{{Key: "_id", Value: id}}, d...)
	}
	return d.Close()
}

// change is one operator on one path.
type change struct {
	operator string
	path     string
	operand  bson.RawValue
}

// classic applies the operators in the order of their paths.
func (u Update) classic(document bson.RawValue) (bson.RawValue, error) {
	var changes []change
	for operator, fields := range value.Fields(u.Spec) {
		if !strings.HasPrefix(operator, "$") {
			return value.Missing, value.Refuse(value.FailedToParse, "Unknown modifier: %s", operator)
		}
		if !value.IsDocument(fields) {
			return value.Missing, value.Refuse(value.FailedToParse, "Modifiers operate on fields but we found type %s instead", value.TypeName(fields))
		}
		for path, operand := range value.Fields(fields) {
			changes = append(changes, change{operator, path, operand})
		}
	}
	if err := conflict(changes); err != nil {
		return value.Missing, err
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.path, b.path) })
	filters, err := arrayFilters(u.Filters, changes)
	if err != nil {
		return value.Missing, err
	}
	paths := make([][][]string, len(changes))
	for i, c := range changes {
		if paths[i], err = u.expand(document, strings.Split(c.path, "."), filters); err != nil {
			return value.Missing, err
		}
	}
	for i, c := range changes {
		for _, path := range paths[i] {
			if document, err = u.apply(c, document, path); err != nil {
				return value.Missing, err
			}
		}
	}
	return document, nil
}

// conflict refuses two changes of one path, or of a path and one in it.
func conflict(changes []change) error {
	var paths []string
	for _, c := range changes {
		mine := []string{c.path}
		if c.operator == "$rename" {
			mine = append(mine, value.Text(c.operand))
		}
		for _, path := range mine {
			for _, other := range paths {
				if path == other || strings.HasPrefix(path, other+".") || strings.HasPrefix(other, path+".") {
					return value.Refuse(value.Conflicting, "Updating the path '%s' would create a conflict at '%s'", path, other)
				}
			}
			paths = append(paths, path)
		}
	}
	return nil
}

func (u Update) apply(c change, document bson.RawValue, path []string) (bson.RawValue, error) {
	if c.operator == "$setOnInsert" && !u.Insert {
		return document, nil
	}
	if c.operator == "$rename" {
		return rename(c, document)
	}
	prepare, known := modifiers[c.operator]
	if !known {
		return value.Missing, value.Unsupported("the update operator %s", c.operator)
	}
	modify, err := prepare(u, c)
	if err != nil {
		return value.Missing, err
	}
	return walk{creates: !keepers[c.operator], modify: modify}.at(document, path, c.path)
}

// rename moves a field. It goes through no array.
func rename(c change, document bson.RawValue) (bson.RawValue, error) {
	to, ok := c.operand.StringValueOK()
	if !ok {
		return value.Missing, value.Refuse(value.BadValue, "The 'to' field for $rename must be a string: %s", c.path)
	}
	moved := value.Missing
	take := walk{modify: func(v bson.RawValue) (bson.RawValue, error) {
		moved = v
		return value.Missing, nil
	}}
	document, err := take.at(document, strings.Split(c.path, "."), c.path)
	if err != nil || value.IsMissing(moved) {
		return document, err
	}
	put := walk{creates: true, modify: func(bson.RawValue) (bson.RawValue, error) { return moved, nil }}
	return put.at(document, strings.Split(to, "."), to)
}
