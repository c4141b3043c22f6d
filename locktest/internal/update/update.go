package update

import (
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

// Check refuses an update that a server would not parse, or that has an operator
// which is not known, whatever the documents are.
func (u Update) Check() error {
	switch {
	case value.IsArray(u.Spec):
		return u.checkPipeline()
	case query.IsOperators(u.Spec):
		changes, err := u.changes()
		if err != nil {
			return err
		}
		_, err = arrayFilters(u.Filters, changes)
		return err
	case !value.IsDocument(u.Spec):
		return value.Refuse(value.FailedToParse, "an update is a document or an array, and not of type %s", value.TypeName(u.Spec))
	case len(value.Elements(u.Filters)) > 0:
		return value.Refuse(value.FailedToParse, "arrayFilters may not be specified for a replacement")
	}
	for key := range value.Fields(u.Spec) {
		if strings.HasPrefix(key, "$") {
			return value.Refuse(value.DollarPrefixed, "The dollar ($) prefixed field '%s' is not allowed in a replacement document", key)
		}
	}
	return nil
}

// Replaces reports whether the update is a whole document.
func (u Update) Replaces() bool { return value.IsDocument(u.Spec) && !query.IsOperators(u.Spec) }

func (u Update) checkPipeline() error {
	if len(value.Elements(u.Filters)) > 0 {
		return value.Refuse(value.FailedToParse, "arrayFilters may not be specified for pipeline-style updates")
	}
	for _, spec := range value.Elements(u.Spec) {
		switch name := stage.Name(spec); name {
		case "$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith":
			if err := stage.Check(spec); err != nil {
				return err
			}
		default:
			return value.Refuse(72, "%s is not allowed to be used within an update", name)
		}
	}
	return nil
}

// Apply returns the document after the update, which [Update.Check] has passed.
func (u Update) Apply(document bson.RawValue) (after bson.RawValue, err error) {
	switch {
	case value.IsArray(u.Spec):
		after, err = u.pipeline(document)
	case query.IsOperators(u.Spec):
		after, err = u.classic(document)
	default:
		after = replaced(document, u.Spec)
	}
	if err != nil {
		return value.Missing, err
	}
	id := value.Get(document, "_id")
	if value.IsMissing(id) {
		return after, nil
	}
	if !value.Equal(id, value.Get(after, "_id")) {
		return value.Missing, value.Refuse(value.ImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	for key, v := range value.Fields(after) {
		if key == "_id" && v.Equal(id) {
			return after, nil
		}
		break
	}
	return append(value.Document{{Key: "_id", Value: id}}, value.Open(after).Set("_id", value.Missing)...).Close(), nil
}

func (u Update) pipeline(before bson.RawValue) (bson.RawValue, error) {
	document := before
	var err error
	for _, spec := range value.Elements(u.Spec) {
		if document, err = stage.Change(spec, document, u.Query); err != nil {
			return value.Missing, err
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
	modify   modifier
}

// changes are the operators on their paths, in the order in which they are applied.
func (u Update) changes() ([]change, error) {
	var changes []change
	for operator, fields := range value.Fields(u.Spec) {
		prepare, known := modifiers[operator]
		switch {
		case !strings.HasPrefix(operator, "$"):
			return nil, value.Refuse(value.FailedToParse, "Unknown modifier: %s", operator)
		case !known:
			return nil, value.Unsupported("the update operator %s", operator)
		case !value.IsDocument(fields):
			return nil, value.Refuse(value.FailedToParse, "Modifiers operate on fields but we found type %s instead", value.TypeName(fields))
		}
		for path, operand := range value.Fields(fields) {
			c := change{operator: operator, path: path, operand: operand}
			err := checkPath(path)
			if err == nil {
				c.modify, err = prepare(u, c)
			}
			if err != nil {
				return nil, err
			}
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return comparePaths(a.path, b.path) })
	return changes, conflict(changes)
}

// classic applies the operators.
func (u Update) classic(document bson.RawValue) (bson.RawValue, error) {
	changes, err := u.changes()
	if err != nil {
		return value.Missing, err
	}
	filters, err := arrayFilters(u.Filters, changes)
	if err != nil {
		return value.Missing, err
	}
	var single []change
	for _, c := range changes {
		paths, err := u.expand(document, strings.Split(c.path, "."), filters)
		if err != nil {
			return value.Missing, err
		}
		for _, path := range paths {
			one := c
			one.path = strings.Join(path, ".")
			single = append(single, one)
		}
	}
	if err := conflict(single); err != nil {
		return value.Missing, err
	}
	for _, c := range single {
		if document, err = u.apply(c, document); err != nil {
			return value.Missing, err
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
				if meet(strings.Split(path, "."), strings.Split(other, ".")) {
					return value.Refuse(value.Conflicting, "Updating the path '%s' would create a conflict at '%s'", path, other)
				}
			}
			paths = append(paths, path)
		}
	}
	return nil
}

// meet reports whether one path is in the other one, or goes through an array that
// the other one takes for a document.
func meet(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return strings.HasPrefix(a[i], "$[") != strings.HasPrefix(b[i], "$[")
		}
	}
	return true
}

func (u Update) apply(c change, document bson.RawValue) (bson.RawValue, error) {
	switch c.operator {
	case "$rename":
		return move(c, document)
	case "$setOnInsert":
		if !u.Insert {
			return document, nil
		}
	}
	return walk{creates: !keepers[c.operator], passes: c.operator == "$unset", modify: c.modify}.at(document, strings.Split(c.path, "."), c.path)
}

// move is a $rename. It goes through no array.
func move(c change, document bson.RawValue) (bson.RawValue, error) {
	to := value.Text(c.operand)
	for _, path := range []string{c.path, to} {
		if err := throughNoArray(document, strings.Split(path, "."), path); err != nil {
			return value.Missing, err
		}
	}
	moved := value.Missing
	take := walk{passes: true, modify: func(v bson.RawValue) (bson.RawValue, error) {
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

func throughNoArray(v bson.RawValue, path []string, whole string) error {
	for _, key := range path {
		if value.IsArray(v) {
			return value.Refuse(value.BadValue, "a field of $rename cannot be an array element: %s", whole)
		}
		v = value.Get(v, key)
	}
	return nil
}
