package update

import (
	"bytes"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
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
	Now     bson.RawValue // for $currentDate, which is not $$NOW if the command has waited
	Insert  bool          // the document is being inserted
}

// Check refuses an update that a server would not parse, or that has an operator
// which is not known, whatever the documents are.
func (u Update) Check() error {
	switch {
	case value.IsArray(u.Spec):
		return u.checkPipeline()
	case query.IsOperators(u.Spec):
		_, _, err := u.changes()
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
	return (&expr.Scope{}).With(u.Query.Let).CheckVariables(u.Spec)
}

// Apply returns the document after the update, which [Update.Check] has passed, and
// whether the server counts it as changed: one that is replaced by itself without its
// _id is.
func (u Update) Apply(document bson.RawValue) (after bson.RawValue, changed bool, err error) {
	var by bson.RawValue
	switch {
	case value.IsArray(u.Spec):
		by, err = u.pipeline(document)
		after = replaced(document, by)
	case query.IsOperators(u.Spec):
		by, err = u.classic(document)
		after = by
	default:
		by = u.Spec
		after = replaced(document, by)
	}
	if err != nil {
		return value.Missing, false, err
	}
	changed = !bytes.Equal(by.Value, document.Value)
	id := value.Get(document, "_id")
	if value.IsMissing(id) {
		return after, changed, nil
	}
	if !value.Equal(id, value.Get(after, "_id")) {
		return value.Missing, false, value.Refuse(value.ImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	if !query.IsOperators(u.Spec) {
		id = value.Get(after, "_id")
	}
	for key, v := range value.Fields(after) {
		if key == "_id" && v.Equal(id) {
			return after, changed, nil
		}
		break
	}
	return append(value.Document{{Key: "_id", Value: id}}, value.Open(after).Set("_id", value.Missing)...).Close(), changed, nil
}

func (u Update) pipeline(document bson.RawValue) (bson.RawValue, error) {
	var err error
	for _, spec := range value.Elements(u.Spec) {
		if document, err = stage.Change(spec, document, u.Query); err != nil {
			return value.Missing, err
		}
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

// changes are the operators on their paths, in the order in which they are applied,
// and the array filters. They are refused in the order of the update.
func (u Update) changes() ([]change, map[string]bson.RawValue, error) {
	filters, err := arrayFilters(u.Filters)
	if err != nil {
		return nil, nil, err
	}
	plan := plan{root: &node{}, filters: filters, used: map[string]bool{}}
	var changes []change
	for operator, fields := range value.Fields(u.Spec) {
		prepare, known := modifiers[operator]
		switch {
		case operator == "$bit":
			return nil, nil, value.Unsupported("the update operator %s", operator)
		case !known:
			return nil, nil, value.Refuse(value.FailedToParse, "Unknown modifier: %s", operator)
		case !value.IsDocument(fields):
			return nil, nil, value.Refuse(value.FailedToParse, "Modifiers operate on fields but we found type %s instead", value.TypeName(fields))
		}
		for path, operand := range value.Fields(fields) {
			c := change{operator: operator, path: path, operand: operand}
			err := checkPath(path)
			if err == nil && operator == "$rename" {
				err = plan.place(path)
				path = value.Text(operand)
			}
			if err == nil {
				c.modify, err = prepare(u, c)
			}
			if err == nil {
				err = plan.place(path)
			}
			if err != nil {
				return nil, nil, err
			}
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return comparePaths(a.path, b.path) })
	return changes, filters, plan.allUsed()
}

// classic applies the operators.
func (u Update) classic(document bson.RawValue) (bson.RawValue, error) {
	changes, filters, err := u.changes()
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

// conflict refuses two changes of one path, or of a path and one in it, which array
// filters may lead to.
func conflict(changes []change) error {
	for i, c := range changes {
		for _, other := range changes[:i] {
			if within(c.path, other.path) || within(other.path, c.path) {
				return value.Refuse(value.Conflicting, "Updating the path '%s' would create a conflict at '%s'", c.path, other.path)
			}
		}
	}
	return nil
}

// within reports whether a path is another one, or in it.
func within(path, other string) bool { return path == other || strings.HasPrefix(path, other+".") }

func (u Update) apply(c change, document bson.RawValue) (bson.RawValue, error) {
	switch c.operator {
	case "$rename":
		return move(c, document)
	case "$setOnInsert":
		if !u.Insert {
			return document, nil
		}
	}
	after, err := walk{creates: !keepers[c.operator], passes: c.operator == "$unset", modify: c.modify}.at(document, strings.Split(c.path, "."), c.path)
	if err == nil && !u.Insert && c.path[0] == '$' && !bytes.Equal(after.Value, document.Value) {
		err = value.Refuse(value.DollarPrefixed, "The dollar ($) prefixed field '%s' is not allowed in the context of an update's replacement document", c.path)
	}
	return after, err
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
