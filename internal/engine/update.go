package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Update is a caller's update, checked and encoded, that may be sent under the
// guard. It shares nothing with the caller's values.
type Update struct {
	operators []operator // of a classic update
	stages    []bson.Raw // of a pipeline update
	filters   []bson.Raw // of arrays
	options   assembly   // the elements of the other options

	Collates bool // the guard has its collation, too
}

// operator is one of a classic update.
type operator struct {
	name   string
	fields bson.Raw
}

const (
	// numbering is the operator that sets the write's number. For a number that
	// only grows it has the same effect as $set, and callers seldom use it
	// themselves.
	numbering = "$max"

	// ownIdentifier is the array filter's identifier of the own entry.
	ownIdentifier = "doclock"
)

// ParseUpdate checks and encodes the update of a guarded write. Its errors say
// what is expected. It sends nothing.
func (e *Engine) ParseUpdate(update any, opts ...options.Lister[options.UpdateOneOptions]) (*Update, error) {
	u, o := &Update{}, options.UpdateOneOptions{}
	for _, lister := range opts {
		if v := reflect.ValueOf(lister); lister == nil || v.Kind() == reflect.Pointer && v.IsNil() { // as the driver's UpdateOne
			continue
		}
		for _, set := range lister.List() {
			if set == nil {
				continue
			}
			if err := set(&o); err != nil {
				return nil, err
			}
		}
	}
	if o.Upsert != nil && *o.Upsert {
		return nil, errors.New("upsert would insert a second document where the lock is lost; leave it out")
	}
	if o.Sort != nil {
		return nil, errors.New("a sort has no meaning here: the guard names one document; leave it out")
	}
	u.Collates = o.Collation != nil
	var err error
	if u.filters, u.options, err = e.encoder.options(o); err != nil {
		return nil, err
	}
	encoded, err := e.encoder.value(update)
	if list, isPipeline := encoded.ArrayOK(); err == nil && isPipeline {
		if len(u.filters) > 0 {
			return nil, errors.New("a pipeline takes no array filters; use $map and $filter, or a classic update")
		}
		u.stages, err = e.stagesOf(list)
		return u, err
	}
	doc, isDocument := encoded.DocumentOK()
	if err != nil || !isDocument { // its error says what is expected
		if doc, err = e.encoder.document(update); err != nil {
			return nil, err
		}
	}
	u.operators, err = e.operatorsOf(doc)
	if reflect.Indirect(reflect.ValueOf(update)).Kind() == reflect.Map { // the same command for the same map
		slices.SortFunc(u.operators, func(a, b operator) int { return strings.Compare(a.name, b.name) })
	}
	return u, err
}

// operatorsOf splits a classic update into its operators, and checks them.
func (e *Engine) operatorsOf(doc bson.Raw) ([]operator, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	if len(elements) == 0 {
		return nil, errors.New(`the update is empty; name an operator, as in {"$set": …}`)
	}
	operators := make([]operator, len(elements))
	for i, element := range elements {
		op := operator{name: element.Key()}
		if !strings.HasPrefix(op.name, "$") {
			return nil, fmt.Errorf(`%q is not an update operator: a replacement would erase the lock; use {"$set": …}`, op.name)
		}
		if op.fields, err = documentOf(element.Value()); err == nil {
			err = e.checkFields(op)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
		operators[i] = op
	}
	return operators, nil
}

// classic is the caller's update with the library's operators added to it.
func (u *Update) classic(own ...operator) bson.Raw {
	update := assemble(512)
	for _, op := range u.operators {
		if i := slices.IndexFunc(own, func(o operator) bool { return o.name == op.name }); i >= 0 {
			op.fields = joined(op.fields, own[i].fields)
			own = slices.Delete(own, i, i+1)
		}
		update = update.add(op.name, embedded(op.fields))
	}
	for _, op := range own {
		update = update.add(op.name, embedded(op.fields))
	}
	return update.end()
}

// pipeline is the caller's pipeline followed by the library's stages.
func (u *Update) pipeline(own ...bson.Raw) bson.RawValue {
	return arrayOfDocuments(slices.Concat(u.stages, own))
}

// setStage is a stage of the library's own.
func setStage(fields bson.D) bson.Raw { return value(bson.D{{Key: "$set", Value: fields}}).Value }

// options encodes the caller's options as elements of the command, and the array
// filters by themselves.
func (e *encoder) options(o options.UpdateOneOptions) (filters []bson.Raw, elements assembly, err error) {
	for _, f := range o.ArrayFilters {
		filter, err := e.document(f)
		if err != nil {
			return nil, nil, fmt.Errorf("array filters: %w", err)
		}
		filters = append(filters, filter)
	}
	if o.BypassDocumentValidation != nil && *o.BypassDocumentValidation {
		elements = elements.add("bypassDocumentValidation", yes)
	}
	if o.Collation != nil {
		elements = elements.add("collation", value(collationOf(o.Collation)))
	}
	comment := forUpdate
	if o.Comment != nil {
		if comment, err = e.value(o.Comment); err != nil {
			return nil, nil, fmt.Errorf("comment: %w", err)
		}
	}
	elements = elements.add("comment", comment)
	if o.Hint != nil {
		if keys := reflect.Indirect(reflect.ValueOf(o.Hint)); keys.Kind() == reflect.Map && keys.Len() > 1 {
			return nil, nil, mongo.ErrMapForOrderedArgument{ParamName: "hint"}
		}
		hint, err := e.value(o.Hint)
		if err != nil {
			return nil, nil, fmt.Errorf("hint: %w", err)
		}
		elements = elements.add("hint", hint)
	}
	if o.Let != nil {
		variables, err := e.document(o.Let)
		if err != nil {
			return nil, nil, fmt.Errorf("let: %w", err)
		}
		elements = elements.add("let", embedded(variables))
	}
	return filters, elements, nil
}

// collationOf has those fields of a collation that are set, by the server's names.
func collationOf(c *options.Collation) (doc bson.D) {
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() {
			doc = append(doc, bson.E{Key: strings.ToLower(name[:1]) + name[1:], Value: v.Field(i).Interface()})
		}
	}
	return doc
}

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

// stagesOf splits a pipeline into its stages, and checks what they do, and their paths.
func (e *Engine) stagesOf(list bson.RawArray) ([]bson.Raw, error) {
	values, err := list.Values()
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, errors.New(`the pipeline is empty; name a stage, as in {"$set": …}`)
	}
	stages := make([]bson.Raw, len(values))
	for i, v := range values {
		if stages[i], err = documentOf(v); err == nil {
			err = e.checkStage(stages[i])
		}
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", i, err)
		}
	}
	return stages, nil
}

func (e *Engine) checkStage(stage bson.Raw) error {
	fields, err := stage.Elements()
	if err != nil {
		return err
	}
	if len(fields) != 1 {
		return fmt.Errorf("it has %d fields; a stage is one operator", len(fields))
	}
	var paths []string
	operator := fields[0].Key()
	switch operator {
	case "$set", "$addFields":
		paths, err = keysOf(fields[0].Value())
	case "$unset":
		paths, err = stringsOf(fields[0].Value())
	case "$replaceRoot", "$replaceWith", "$project":
		return fmt.Errorf("%s would erase the lock; use $set and $unset", operator)
	default:
		return fmt.Errorf("%s is not an update stage; use $set and $unset", operator)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", operator, err)
	}
	for _, path := range paths {
		if err := e.checkPath(path); err != nil {
			return err
		}
	}
	return nil
}

// checkPath refuses paths that touch the lock, and paths that touch the shard
// key, because the library finds the document by it. It refuses the positional
// operator too: the server may take the position from the guard's array.
func (e *Engine) checkPath(path string) error {
	if first, _, _ := strings.Cut(path, "."); first == e.Field {
		return fmt.Errorf("path %q touches the lock field %q, which is the library's", path, e.Field)
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

// keysOf reads the argument of $set: a document.
func keysOf(v bson.RawValue) (keys []string, err error) {
	doc, err := documentOf(v)
	if err != nil {
		return nil, err
	}
	fields, err := doc.Elements()
	for _, field := range fields {
		keys = append(keys, field.Key())
	}
	return keys, err
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
