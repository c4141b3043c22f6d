package stage

import (
	"slices"
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

// Check refuses a stage that changes documents if a server would not parse it.
func Check(stage bson.RawValue) error {
	fields := value.Open(stage)
	if len(fields) != 1 {
		return value.Refuse(40323, "A pipeline stage specification object must contain exactly one field.")
	}
	switch name, spec := fields[0].Key, fields[0].Value; name {
	case "$set", "$addFields":
		if !value.IsDocument(spec) {
			return value.Refuse(40272, "%s specification stage must be an object, got %s", name, value.TypeName(spec))
		}
		return checkComputed(spec, func([]string, bson.RawValue) error { return nil })
	case "$project":
		if len(value.Open(spec)) == 0 {
			return value.Refuse(51272, "$project specification must be an object with at least one field: %s", spec)
		}
		_, err := ParseProjection(spec)
		return err
	case "$unset":
		paths, seen := unset(spec), tree{}
		for _, path := range paths {
			if text := value.Text(path); text == "" || strings.HasPrefix(text, "$") || slices.Contains(strings.Split(text, "."), "") {
				return value.Refuse(31002, "$unset specification must be a path or an array of paths: %s", path)
			}
			if !seen.add(strings.Split(value.Text(path), ".")) {
				return value.Refuse(31250, "Path collision at %s", path)
			}
		}
		if len(paths) == 0 {
			return value.Refuse(31119, "$unset specification must be a string or an array with at least one field")
		}
		return nil
	case "$replaceRoot":
		if newRoot := value.Get(spec, "newRoot"); len(value.Open(spec)) != 1 || value.IsMissing(newRoot) {
			return value.Refuse(40231, "$replaceRoot needs newRoot, and nothing else")
		}
		return expr.Check(value.Get(spec, "newRoot"))
	case "$replaceWith":
		return expr.Check(spec)
	default:
		return value.Unsupported("the pipeline stage %q", name)
	}
}

// checkComputed calls visit with each path of a specification and its expression,
// and checks both. No path may be there twice, or lead into another one.
func checkComputed(spec bson.RawValue, visit func(path []string, expression bson.RawValue) error) error {
	seen := tree{}
	return computed(spec, nil, func(path []string, expression bson.RawValue) error {
		if err := visit(path, expression); err != nil {
			return err
		}
		whole := strings.Join(path, ".")
		for _, name := range path {
			if name == "" || strings.HasPrefix(name, "$") {
				return value.Refuse(15998, "FieldPath field names may not be empty strings, or start with '$': %q", whole)
			}
		}
		if !seen.add(path) {
			return value.Refuse(31250, "Path collision at %s", whole)
		}
		return expr.Check(expression)
	})
}

func unset(spec bson.RawValue) []bson.RawValue {
	if value.IsArray(spec) {
		return value.Elements(spec)
	}
	return []bson.RawValue{spec}
}

// Change is a document after a stage that changes it, which [Check] has passed.
func Change(stage, document bson.RawValue, q query.Query) (bson.RawValue, error) {
	fields := value.Open(stage)
	scope := (&expr.Scope{Root: document, Now: q.Now}).With(q.Let)
	switch spec := fields[0].Value; fields[0].Key {
	case "$set", "$addFields":
		return add(scope, spec, document)
	case "$unset":
		paths := tree{}
		for _, path := range unset(spec) {
			paths.add(strings.Split(value.Text(path), "."))
		}
		return excluded(document, paths), nil
	case "$project":
		p, err := ParseProjection(spec)
		if err != nil {
			return value.Missing, err
		}
		return p.Of(document, q)
	case "$replaceRoot":
		return replace(scope, value.Get(spec, "newRoot"))
	default: // $replaceWith
		return replace(scope, spec)
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

// put sets the value at a path, also in each element of an array on the way. What is
// no document on the way becomes one, even where a missing value removes the field.
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
	d := value.Open(v)
	return d.Set(path[0], put(d.Get(path[0]), path[1:], to)).Close()
}
