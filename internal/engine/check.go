package engine

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// checkFields checks the paths of an operator.
func (e *Engine) checkFields(op operator) error {
	fields, err := op.fields.Elements()
	if err != nil {
		return err
	}
	for _, field := range fields {
		if err := e.checkPath(field.Key()); err != nil {
			return err
		}
		if op.name != "$rename" {
			continue
		}
		to, ok := field.Value().StringValueOK()
		if !ok {
			return fmt.Errorf("the new name of %q is a value of type %s; give a string", field.Key(), field.Value().Type)
		}
		if err := e.checkPath(to); err != nil {
			return err
		}
	}
	return nil
}

// checkStages checks what a pipeline does, and its paths.
func (e *Engine) checkStages(stages []bson.Raw) error {
	if len(stages) == 0 {
		return errors.New(`the pipeline is empty; name a stage, as in {"$set": …}`)
	}
	for i, stage := range stages {
		fields, err := stage.Elements()
		if err != nil {
			return fmt.Errorf("stage %d: %w", i, err)
		}
		if len(fields) != 1 {
			return fmt.Errorf("stage %d has %d fields; a stage is one operator", i, len(fields))
		}
		var paths []string
		switch operator, value := fields[0].Key(), fields[0].Value(); operator {
		case "$set", "$addFields":
			doc, err := documentOf(value)
			if err != nil {
				return fmt.Errorf("stage %d: %s: %w", i, operator, err)
			}
			set, err := doc.Elements()
			if err != nil {
				return fmt.Errorf("stage %d: %s: %w", i, operator, err)
			}
			for _, field := range set {
				paths = append(paths, field.Key())
			}
		case "$unset":
			if paths, err = stringsOf(value); err != nil {
				return fmt.Errorf("stage %d: $unset: %w", i, err)
			}
		case "$replaceRoot", "$replaceWith", "$project":
			return fmt.Errorf("stage %d: %s would erase the lock; use $set and $unset", i, operator)
		default:
			return fmt.Errorf("stage %d: %s is not an update stage; use $set and $unset", i, operator)
		}
		for _, path := range paths {
			if err := e.checkPath(path); err != nil {
				return fmt.Errorf("stage %d: %w", i, err)
			}
		}
	}
	return nil
}

// checkPath refuses paths that touch the lock, and paths that touch the shard
// key, because the library finds the document by it. It refuses the positional
// operator too: the server may take the position from the guard's array.
func (e *Engine) checkPath(path string) error {
	if first, _, _ := strings.Cut(path, "."); first == e.field {
		return fmt.Errorf("path %q touches the lock field %q, which is the library's", path, e.field)
	}
	for _, key := range e.ShardKey {
		if within(path, key) || within(key, path) {
			return fmt.Errorf("path %q touches the field %q of the shard key: the document would leave the lease's reach", path, key)
		}
	}
	for segment := range strings.SplitSeq(path, ".") {
		if segment == "$" {
			return fmt.Errorf("path %q is positional, and the server may take the position from the lock's array; use an array filter, as in \"items.$[item]\"", path)
		}
	}
	return nil
}

// within reports whether a path leads to a field or into it.
func within(path, field string) bool { return path == field || strings.HasPrefix(path, field+".") }

// documentOf reads a value that has to be a document.
func documentOf(v bson.RawValue) (bson.Raw, error) {
	doc, ok := v.DocumentOK()
	switch {
	case ok:
		return doc, nil
	case v.Type == bson.TypeNull:
		return nil, errors.New("nil is not a document; " + wantDocument)
	default:
		return nil, fmt.Errorf("a value of type %s is not a document; %s", v.Type, wantDocument)
	}
}

// stagesOf reads a pipeline that encoded itself.
func stagesOf(v bson.RawValue) ([]bson.Raw, error) {
	list, _ := v.ArrayOK()
	values, err := list.Values()
	if err != nil {
		return nil, err
	}
	stages := make([]bson.Raw, len(values))
	for i, v := range values {
		if stages[i], err = documentOf(v); err != nil {
			return nil, fmt.Errorf("stage %d: %w", i, err)
		}
	}
	return stages, nil
}

// stringsOf reads the argument of $unset: a name, or a list of names.
func stringsOf(v bson.RawValue) ([]string, error) {
	values := []bson.RawValue{v}
	if list, ok := v.ArrayOK(); ok {
		var err error
		if values, err = list.Values(); err != nil {
			return nil, err
		}
	}
	names := make([]string, len(values))
	for i, v := range values {
		name, ok := v.StringValueOK()
		if !ok {
			return nil, errors.New("give the name of a field, or a list of names")
		}
		names[i] = name
	}
	return names, nil
}
