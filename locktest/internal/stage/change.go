package stage

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Name is a stage's, or "" if it is none.
func Name(stage bson.RawValue) string {
	if fields := value.Open(stage); len(fields) == 1 {
		return fields[0].Key
	}
	return ""
}

// Change is a document after a stage that changes it.
func Change(stage, document bson.RawValue, q query.Query) (bson.RawValue, error) {
	fields := value.Open(stage)
	if len(fields) != 1 {
		return value.Missing, value.Refuse(40323, "A pipeline stage specification object must contain exactly one field.")
	}
	scope := (&expr.Scope{Root: document, Now: q.Now}).With(q.Let)
	switch name, spec := fields[0].Key, fields[0].Value; name {
	case "$set", "$addFields":
		if !value.IsDocument(spec) {
			return value.Missing, value.Refuse(40272, "%s specification stage must be an object, got %s", name, value.TypeName(spec))
		}
		return add(scope, spec, document)
	case "$unset":
		paths := []bson.RawValue{spec}
		if value.IsArray(spec) {
			paths = value.Elements(spec)
		}
		for _, path := range paths {
			document = put(document, strings.Split(value.Text(path), "."), value.Missing)
		}
		return document, nil
	case "$project":
		return Project(spec, document, q)
	case "$replaceRoot":
		return replace(scope, value.Get(spec, "newRoot"))
	case "$replaceWith":
		return replace(scope, spec)
	default:
		return value.Missing, value.Unsupported("the pipeline stage %q", name)
	}
}

func replace(scope *expr.Scope, by bson.RawValue) (bson.RawValue, error) {
	v, err := scope.Eval(by)
	if err == nil && !value.IsDocument(v) {
		err = value.Refuse(40228, "'newRoot' expression must evaluate to an object, but resulting value was of type %s", value.TypeName(v))
	}
	return v, err
}

// add sets computed fields. All are computed of the document as it came.
func add(scope *expr.Scope, spec, document bson.RawValue) (bson.RawValue, error) {
	after := document
	err := computed(spec, nil, func(path []string, expression bson.RawValue) error {
		v, err := scope.Eval(expression)
		after = put(after, path, v)
		return err
	})
	return after, err
}

// computed calls set with each path of a specification and its expression. A
// nested document without an operator is more paths.
func computed(spec bson.RawValue, at []string, set func(path []string, expression bson.RawValue) error) error {
	for key, v := range value.Fields(spec) {
		path := append(at[:len(at):len(at)], strings.Split(key, ".")...)
		var err error
		switch {
		case !value.IsDocument(v) || query.IsOperators(v):
			err = set(path, v)
		case len(value.Open(v)) == 0:
			err = value.Refuse(40180, "an empty object is not a valid value. Found empty object at path %s", strings.Join(path, "."))
		default:
			err = computed(v, path, set)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put sets the value at a path, also in each element of an array on the way. A
// missing value removes it.
func put(v bson.RawValue, path []string, to bson.RawValue) bson.RawValue {
	if len(path) == 0 {
		return to
	}
	if value.IsArray(v) {
		elements := value.Elements(v)
		for i, element := range elements {
			elements[i] = put(element, path, to)
		}
		return value.Array(elements)
	}
	if !value.IsDocument(v) && value.IsMissing(to) {
		return v
	}
	d := value.Open(v)
	return d.Set(path[0], put(d.Get(path[0]), path[1:], to)).Close()
}
