package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/doclock/doclock/internal/bsonvalue"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Pin is the filter that names one document for good: its _id and the fields of
// the shard key, each a [bson.RawValue]. The caller's own filter may stop
// matching under the lock.
type Pin bson.D

// ID is the document's _id.
func (p Pin) ID() bson.RawValue { return p[0].Value.(bson.RawValue) }

// Compare is the order in which a command of several statements names its
// documents: some servers lock the documents until the whole command is done, and
// two commands would wait for each other.
func (p Pin) Compare(other Pin) int {
	x, y := p.ID(), other.ID()
	return cmp.Or(cmp.Compare(x.Type, y.Type), bytes.Compare(x.Value, y.Value))
}

// equals says that both pins are of one document, as a server's answers name it.
func (p Pin) equals(other Pin) bool {
	return bytes.Equal(encoded(bson.D(p)).Value, encoded(bson.D(other)).Value)
}

// among matches the documents of the pins.
func (e *Engine) among(pins []Pin) bson.D {
	if len(e.ShardKey) == 0 {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: idsOf(pins)}}}}
	}
	return bson.D{{Key: "$or", Value: filtersOf(pins)}} // the router sends them to the right shards
}

func idsOf(pins []Pin) bson.A {
	all := make(bson.A, len(pins))
	for i, pin := range pins {
		all[i] = pin.ID()
	}
	return all
}

func filtersOf(pins []Pin) bson.A {
	all := make(bson.A, len(pins))
	for i, pin := range pins {
		all[i] = bson.D(pin)
	}
	return all
}

func (p Pin) and(more ...bson.E) bson.D {
	return append(slices.Clone(bson.D(p)), more...)
}

// Pin makes the pin of the image's document.
func (e *Engine) Pin(img *Image) Pin {
	pin := Pin{{Key: "_id", Value: img.ID}}
	for _, key := range e.ShardKey {
		v := bson.RawValue{Type: bson.TypeNull} // a missing field is null to the shard key, and to a filter
		if found, err := img.raw.LookupErr(strings.Split(key, ".")...); err == nil {
			v = clone(found)
		}
		pin = append(pin, bson.E{Key: key, Value: v})
	}
	return pin
}

// Filter is a caller's filter, checked and encoded.
type Filter struct {
	doc bson.Raw

	sort bson.Raw // which of several documents it finds: the first by these keys; nil for any

	// Pin is set if the filter demands, at its top level, equality of the _id
	// and of all fields of the shard key. Such an acquire finds the same
	// document again, and may be repeated. An _id alone may name one document
	// on each shard.
	Pin Pin

	// Exact: the filter demands nothing else, so it matches whenever the
	// document exists.
	Exact bool

	// conditions are what it demands beside the pin, but not of the lock's field, where an entry
	// that waits ends what it has met; nil for none. They hold at the grant, too.
	conditions bson.Raw

	// Unmet is the first condition that a document which Upsert would make doesn't
	// meet, or may not, or else "". made are the fields of that document.
	Unmet string
	made  bson.D
}

// ParseFilter checks and encodes a caller's filter, and keeps no reference to
// it. It refuses a filter that names no document in particular.
func (e *Engine) ParseFilter(filter any) (Filter, error) {
	f, err := e.ParseAny(filter)
	if err == nil && f.empty() {
		err = errors.New("an empty filter would lock any document; name one, as by its _id")
	}
	return f, err
}

// ParseAny is ParseFilter for an acquire that takes any document.
func (e *Engine) ParseAny(filter any) (Filter, error) {
	doc, err := e.encoder.document(filter)
	if err != nil {
		return Filter{}, fmt.Errorf("%w (doclock.ID(…) names a document by its _id)", err)
	}
	if err := e.checkMaps(reflect.ValueOf(filter), ""); err != nil {
		return Filter{}, err
	}
	fields, err := doc.Elements()
	if err != nil {
		return Filter{}, err
	}
	for i, field := range fields {
		key := field.Key()
		twice := slices.ContainsFunc(fields[:i], func(other bson.RawElement) bool { return other.Key() == key })
		if twice && slices.Contains(e.identity(), key) {
			return Filter{}, fmt.Errorf("it has %q twice, and servers differ in which one counts; give both conditions in an $and", key)
		}
	}
	f := Filter{doc: doc, Pin: e.pinned(doc)}
	f.Exact = f.Pin != nil && len(fields) == len(f.Pin)
	if f.Pin != nil {
		f.made, f.Unmet = e.fresh(f.Pin, fields)
	}
	kept := assemble(len(doc))
	for _, field := range fields {
		if field.Key() != "$comment" && !e.asksLock(field) && (f.Pin == nil || !slices.Contains(e.identity(), field.Key())) {
			kept = kept.add(field.Key(), field.Value())
		}
	}
	if len(kept) > len(assemble(0)) {
		f.conditions = kept.end()
	}
	return f, nil
}

// asksLock says that a condition names the lock's field, as a key or in an expression.
func (e *Engine) asksLock(c bson.RawElement) bool {
	if within(c.Key(), e.Field) {
		return true
	}
	path, isString := c.Value().StringValueOK()
	if path, isPath := strings.CutPrefix(path, "$"); isString {
		return isPath && within(path, e.Field)
	}
	doc, _ := c.Value().DocumentOK()
	if array, isArray := c.Value().ArrayOK(); isArray {
		doc = bson.Raw(array)
	}
	below, _ := doc.Elements()
	return slices.ContainsFunc(below, e.asksLock)
}

// EqualID is the _id that the filter demands at its top level, with or without a
// shard key's fields.
func (f Filter) EqualID() (id bson.RawValue, demanded bool) {
	if f.Pin != nil {
		return f.Pin.ID(), true
	}
	id, err := f.doc.LookupErr("_id")
	return id, err == nil && isEquality(id)
}

// String is the filter as relaxed extended JSON.
func (f Filter) String() string {
	return bsonvalue.Readable(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: f.doc})
}

func (f Filter) empty() bool {
	elements, _ := f.doc.Elements()
	return len(elements) == 0
}

// Sorted has the filter find the first of the documents that match, by these
// keys. A filter that pins its document stays as it is.
func (f Filter) Sorted(keys bson.Raw) Filter {
	if f.Pin == nil {
		f.sort = keys
	}
	return f
}

// Key is the same for equal filters. Filters are equal if their fields and
// their keys are equal, in the same order.
func (f Filter) Key() string { return string(f.doc) + string(f.sort) }

// pinned is the pin that a filter demands, or nil.
func (e *Engine) pinned(filter bson.Raw) Pin {
	pin := make(Pin, 0, 1+len(e.ShardKey))
	for _, key := range e.identity() {
		v, err := filter.LookupErr(key)
		if err != nil || !isEquality(v) {
			return nil
		}
		pin = append(pin, bson.E{Key: key, Value: v})
	}
	return pin
}

// identity are the fields that name a document: the _id and those of the shard key.
func (e *Engine) identity() []string { return append([]string{"_id"}, e.ShardKey...) }

// isEquality reports whether a filter compares with this value for equality. A
// document of operators and a regular expression are not such values.
func isEquality(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeRegex:
		return false
	case bson.TypeEmbeddedDocument:
		elements, err := v.Document().Elements()
		return err == nil && (len(elements) == 0 || !strings.HasPrefix(elements[0].Key(), "$"))
	default:
		return true
	}
}

// Again is the filter of a repeated acquire. It also matches where an earlier attempt
// has left its entry, which may keep the caller's filter from matching.
func (e *Engine) Again(f Filter, r Request) Filter {
	if f.Pin != nil && !f.Exact {
		own := bson.D{{Key: e.path(r.Tag) + "." + idKey, Value: idValue(r.ID)}}
		f.doc = value(f.Pin.and(bson.E{Key: "$or", Value: bson.A{f.doc, own}})).Value
	}
	return f
}

// At narrows the filter to the one document that it has matched.
func (f Filter) At(pin Pin) Filter {
	if f.Pin != nil {
		return f
	}
	return Filter{doc: f.and(bson.D(pin)), Pin: pin, conditions: f.conditions}
}

// and is the filter with more conditions.
func (f Filter) and(more ...any) bson.Raw {
	return value(bson.D{{Key: "$and", Value: append(bson.A{f.doc}, more...)}}).Value
}

// fresh are the fields that a document which Upsert makes has beside its identity and
// its lock, by the filter's equalities, and the first of its conditions that such a
// document doesn't meet, or may not.
func (e *Engine) fresh(pin Pin, fields []bson.RawElement) (made bson.D, unmet string) {
	paths := []string{e.Field}
	for _, p := range pin {
		paths = append(paths, p.Key)
	}
	set := func(path string) bool {
		return slices.ContainsFunc(paths, func(other string) bool { return within(path, other) || within(other, path) })
	}
	var conditions []bson.RawElement
	for _, f := range fields {
		switch key := f.Key(); {
		case slices.ContainsFunc(pin, func(p bson.E) bool { return p.Key == key }), key == "$comment":
		case !strings.HasPrefix(key, "$") && isEquality(f.Value()) && !set(key):
			paths = append(paths, key)
			made = append(made, bson.E{Key: key, Value: f.Value()})
		default:
			conditions = append(conditions, f)
		}
	}
	for _, c := range conditions {
		key := c.Key()
		absent := !set(key) || within(key, e.Field) && key != e.Field
		if strings.HasPrefix(key, "$") || !absent || !meetsAbsent(c.Value()) {
			return made, key
		}
	}
	return made, ""
}

// meetsAbsent says that a field which is absent meets a condition, by operators of which
// that is certain.
func meetsAbsent(condition bson.RawValue) bool {
	operators, isDocument := condition.DocumentOK()
	elements, err := operators.Elements()
	null := func(v bson.RawValue) bool { return v.Type == bson.TypeNull || v.Type == bson.TypeUndefined }
	return isDocument && err == nil && !slices.ContainsFunc(elements, func(o bson.RawElement) bool {
		switch v := o.Value(); o.Key() {
		case "$ne":
			return null(v)
		case "$nin":
			array, isArray := v.ArrayOK()
			values, err := array.Values()
			return !isArray || err != nil || slices.ContainsFunc(values, null)
		case "$exists":
			exists, isBool := v.BooleanOK()
			return exists || !isBool
		default:
			return true
		}
	})
}
