package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Update is a caller's update that was checked and may ride under the guard.
// The caller's values are carried as they came, so that the caller's registry
// encodes them.
type Update struct {
	operators []operator    // of a classic update
	structure reflect.Value // the classic update as a struct, where it came as one
	stages    []any         // of a pipeline update
	opts      options.UpdateOneOptions
}

// operator is one of a classic update.
type operator struct {
	name   string
	value  any    // as it came
	fields bson.D // of the value
	opaque bool   // the value can't be taken apart, or the whole update can't
}

const (
	// numbering is the operator that sets the write's number. It says the
	// same as $set for a number that only grows, and is hardly ever the
	// caller's own, so that a struct under $set needs no taking apart.
	numbering = "$max"

	// ownIdentifier is the array filter's name for the own entry.
	ownIdentifier = "doclock"
)

// ParseUpdate checks what a caller gives to a guarded write. The errors say
// what would be right; nothing was sent.
func (e *Engine) ParseUpdate(update any, opts ...options.Lister[options.UpdateOneOptions]) (*Update, error) {
	u := &Update{}
	for _, lister := range opts {
		if lister == nil {
			continue
		}
		for _, set := range lister.List() {
			if err := set(&u.opts); err != nil {
				return nil, err
			}
		}
	}
	if u.opts.Upsert != nil && *u.opts.Upsert {
		return nil, errors.New("upsert would insert a second document where the lock is lost; leave it out")
	}
	if u.opts.Sort != nil {
		return nil, errors.New("a sort has no meaning here: the guard names one document; leave it out")
	}
	if p := reflect.ValueOf(update); p.Kind() == reflect.Pointer && !p.IsNil() && p.Elem().Kind() != reflect.Struct {
		update = p.Elem().Interface()
	}
	stages, isPipeline, err := pipelineOf(update)
	if err != nil {
		return nil, err
	}
	if isPipeline {
		if len(u.opts.ArrayFilters) > 0 {
			return nil, errors.New("a pipeline takes no array filters; use $map and $filter, or a classic update")
		}
		u.stages = stages
		return u, e.checkStages(stages)
	}
	return u, e.parseClassic(u, update)
}

func (e *Engine) parseClassic(u *Update, update any) error {
	operators, opaque, err := fieldsOf(update)
	if err != nil {
		return err
	}
	if len(operators) == 0 {
		return errors.New(`the update is empty; name an operator, as in {"$set": …}`)
	}
	for _, op := range operators {
		if !strings.HasPrefix(op.Key, "$") {
			return fmt.Errorf(`%q is not an update operator: a replacement would erase the lock; use {"$set": …}`, op.Key)
		}
		fields, opaqueFields, err := fieldsOf(op.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Key, err)
		}
		extended := op.Key == numbering || op.Key == "$push" || op.Key == "$pull"
		if extended && opaqueFields {
			return fmt.Errorf("%s is a %T, and the library has to add a field of its own; give it as a bson.D or bson.M", op.Key, op.Value)
		}
		if err := e.checkFields(op.Key, fields); err != nil {
			return fmt.Errorf("%s: %w", op.Key, err)
		}
		if extended && opaque {
			return fmt.Errorf("the update is a %T with %s, to which the library has to add a field of its own; give it as a bson.D or bson.M", update, op.Key)
		}
		u.operators = append(u.operators, operator{op.Key, op.Value, fields, opaque || opaqueFields})
	}
	if opaque {
		u.structure = reflect.Indirect(reflect.ValueOf(update))
	}
	return nil
}

func (e *Engine) checkFields(operator string, fields bson.D) error {
	for _, field := range fields {
		if err := e.checkPath(field.Key); err != nil {
			return err
		}
		if operator != "$rename" {
			continue
		}
		to, err := stringsOf(field.Value)
		if err != nil || len(to) != 1 {
			return fmt.Errorf("the new name of %q is a %T; give a string", field.Key, field.Value)
		}
		if err := e.checkPath(to[0]); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) checkStages(stages []any) error {
	if len(stages) == 0 {
		return errors.New(`the pipeline is empty; name a stage, as in {"$set": …}`)
	}
	for i, stage := range stages {
		fields, _, err := fieldsOf(stage)
		if err != nil {
			return fmt.Errorf("stage %d: %w", i, err)
		}
		if len(fields) != 1 {
			return fmt.Errorf("stage %d has %d fields; a stage is one operator", i, len(fields))
		}
		var paths []string
		switch operator, value := fields[0].Key, fields[0].Value; operator {
		case "$set", "$addFields":
			set, _, err := fieldsOf(value)
			if err != nil {
				return fmt.Errorf("stage %d: %s: %w", i, operator, err)
			}
			for _, field := range set {
				paths = append(paths, field.Key)
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

// checkPath refuses what would touch the lock, and the positional operator:
// the server may take the position from the guard's array.
func (e *Engine) checkPath(path string) error {
	segments := strings.Split(path, ".")
	if segments[0] == e.field {
		return fmt.Errorf("path %q touches the lock field %q, which is the library's", path, e.field)
	}
	if slices.Contains(segments, "$") {
		return fmt.Errorf("path %q is positional, and the server may take the position from the lock's array; use an array filter, as in \"items.$[item]\"", path)
	}
	return nil
}

// classic is the caller's update with the library's operators added.
func (u *Update) classic(own bson.D) any {
	if u.structure.IsValid() {
		return beside(u.structure, own)
	}
	update := make(bson.D, 0, len(u.operators)+len(own))
	for _, op := range u.operators {
		update = append(update, bson.E{Key: op.name, Value: op.value})
	}
	for _, o := range own {
		i := u.find(o.Key)
		if i < 0 {
			update = append(update, o)
			continue
		}
		update[i].Value = append(slices.Clone(u.operators[i].fields), o.Value.(bson.D)...)
	}
	return update
}

func (u *Update) find(name string) int {
	return slices.IndexFunc(u.operators, func(op operator) bool { return op.name == name })
}

// takes reports whether classic can add to these operators: a struct can't be
// taken apart without losing how the caller's registry would encode it.
func (u *Update) takes(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		i := u.find(name)
		return i >= 0 && u.operators[i].opaque
	})
}

// pipeline is the caller's pipeline with one more $set behind it.
func (u *Update) pipeline(set bson.D) bson.A {
	return append(bson.A(slices.Clone(u.stages)), bson.D{{Key: "$set", Value: value(set)}})
}

// beside is a struct that holds the caller's one inline and own after it: the
// caller's registry encodes the caller's half, and so it must reach the driver
// in its own type.
func beside(structure reflect.Value, own bson.D) any {
	fields := []reflect.StructField{{Name: "Caller", Type: structure.Type(), Tag: `bson:",inline"`}}
	for i, o := range own {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Own%d", i),
			Type: reflect.TypeFor[bson.D](),
			Tag:  reflect.StructTag(fmt.Sprintf(`bson:"%s"`, o.Key)),
		})
	}
	v := reflect.New(reflect.StructOf(fields)).Elem()
	v.Field(0).Set(structure)
	for i, o := range own {
		v.Field(i + 1).Set(reflect.ValueOf(o.Value))
	}
	return v.Interface()
}

// pipelineOf tells a pipeline from a document, as the driver does.
func pipelineOf(update any) (stages []any, isPipeline bool, err error) {
	switch t := update.(type) {
	case nil, bson.D, bson.Raw, []byte, bson.Marshaler:
		return nil, false, nil
	case bson.ValueMarshaler:
		kind, data, err := t.MarshalBSONValue()
		if err != nil || bson.Type(kind) != bson.TypeArray {
			return nil, false, err
		}
		values, err := bson.RawArray(data).Values()
		for _, v := range values {
			if doc, ok := v.DocumentOK(); ok {
				stages = append(stages, doc)
			} else {
				stages = append(stages, v)
			}
		}
		return stages, true, err
	}
	v := reflect.ValueOf(update)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return nil, false, nil
	}
	for i := range v.Len() {
		stages = append(stages, v.Index(i).Interface())
	}
	return stages, true, nil
}

// stringsOf reads the argument of $unset: a name, or a list of names.
func stringsOf(v any) ([]string, error) {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		return nil, err
	}
	var one string
	raw := bson.RawValue{Type: kind, Value: data}
	if raw.Unmarshal(&one) == nil {
		return []string{one}, nil
	}
	var list []string
	if raw.Unmarshal(&list) == nil {
		return list, nil
	}
	return nil, errors.New("give the name of a field, or a list of names")
}
