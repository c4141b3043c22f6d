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
		return checkComputed(spec)
	case "$project":
		if !value.IsDocument(spec) {
			return value.Refuse(15969, "$project specification must be an object")
		}
		if len(value.Open(spec)) == 0 {
			return value.Refuse(51272, "$project specification must be an object with at least one field: %s", spec)
		}
		_, err := ParseProjection(spec)
		return err
	case "$unset":
		excluding, err := unset(spec)
		if err == nil {
			_, err = ParseProjection(excluding)
		}
		return err
	case "$replaceRoot":
		newRoot := value.Get(spec, "newRoot")
		switch {
		case !value.IsDocument(spec):
			return value.Refuse(40229, "expected an object as specification for $replaceRoot stage, got %s", value.TypeName(spec))
		case value.IsMissing(newRoot):
			return value.Refuse(40231, "no newRoot specified for the $replaceRoot stage")
		case len(value.Open(spec)) > 1:
			return value.Refuse(40230, "unrecognized option to $replaceRoot stage, only valid option is 'newRoot'.")
		}
		return expr.Check(newRoot)
	case "$replaceWith":
		return expr.Check(spec)
	default:
		return value.Unsupported("the pipeline stage %q", name)
	}
}

// checkComputed checks all paths of a specification, none of which may lead to another
// one, and then all expressions.
func checkComputed(spec bson.RawValue) error {
	seen := tree{}
	var all []bson.RawValue
	err := computed(spec, nil, func(path []string, expression bson.RawValue) error {
		all = append(all, expression)
		if err := checkNames(path); err != nil {
			return err
		}
		if seen.add(path) != 0 {
			return value.Refuse(40176, "specification contains two conflicting paths. One is '%s'", strings.Join(path, "."))
		}
		return nil
	})
	for _, e := range all {
		if err == nil {
			err = expr.Check(e)
		}
	}
	return err
}

// unset is the projection that an $unset stands for.
func unset(spec bson.RawValue) (excluding bson.RawValue, err error) {
	paths := []bson.RawValue{spec}
	if value.IsArray(spec) {
		paths = value.Elements(spec)
	}
	var d value.Document
	for _, path := range paths {
		text, ok := path.StringValueOK()
		switch {
		case !ok && value.IsArray(spec):
			return excluding, value.Refuse(31120, "$unset specification must be a string or an array containing only string values")
		case !ok:
			return excluding, value.Refuse(31002, "$unset specification must be a string or an array")
		case strings.Contains(text, "\x00"):
			return excluding, value.Refuse(16411, "FieldPath field names may not contain null bytes: %q", text)
		}
		d = append(d, value.Field{Key: text, Value: value.False})
	}
	if len(d) == 0 {
		return excluding, value.Refuse(31119, "$unset specification must be a string or an array with at least one field")
	}
	return d.Close(), nil
}

// Fold is a stage, which [Check] has passed, with what can be computed in advance: see
// [expr.Scope.Fold]. A stage that has no expressions stays as it is.
func Fold(stage bson.RawValue, q query.Query) (bson.RawValue, error) {
	name := Name(stage)
	spec, scope := value.Get(stage, name), scope(q, value.Missing)
	var err error
	switch name {
	case "$set", "$addFields", "$project", "$replaceRoot":
		spec, err = scope.FoldFields(spec)
	case "$replaceWith":
		spec, err = scope.Fold(spec)
	}
	return value.Document{{Key: name, Value: spec}}.Close(), err
}

// Change is a document after a stage that changes it, which [Check] has passed.
func Change(stage, document bson.RawValue, q query.Query) (bson.RawValue, error) {
	fields := value.Open(stage)
	scope, spec := scope(q, document), fields[0].Value
	switch fields[0].Key {
	case "$set", "$addFields":
		return add(scope, spec, document)
	case "$unset":
		excluding, err := unset(spec)
		if err != nil {
			return value.Missing, err
		}
		spec = excluding
		fallthrough
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

// add sets computed fields. All are computed of the document as it came, for each
// element of an array that their path leads through.
func add(scope *expr.Scope, spec, document bson.RawValue) (bson.RawValue, error) {
	after := document
	err := computed(spec, nil, func(path []string, expression bson.RawValue) error {
		after = put(after, path, func() bson.RawValue { return scope.Value(expression) })
		return scope.Err()
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
func put(v bson.RawValue, path []string, to func() bson.RawValue) bson.RawValue {
	if len(path) == 0 {
		return to()
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
