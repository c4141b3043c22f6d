package engine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file refuses Go maps where the order of a document's fields matters. A document
// as a value of _id, or of the shard key, is equal to another one only if its fields
// have the same order. A map has none: each encoding of it would name another document.

// checkMaps refuses a map with several keys below the _id and the fields of the shard
// key. Operators have no order. It doesn't look into values that encode themselves.
func (e *Engine) checkMaps(filter any) error {
	return e.checkFilter(reflect.ValueOf(filter))
}

func (e *Engine) checkFilter(v reflect.Value) error {
	for name, value := range e.encoder.fieldsOf(v) {
		var err error
		switch {
		case slices.Contains([]string{"$and", "$or", "$nor"}, name):
			for i := range lengthOf(value) {
				err = e.checkFilter(indirect(value).Index(i))
				if err != nil {
					break
				}
			}
		case slices.ContainsFunc(e.identity(), func(key string) bool { return within(name, key) || within(key, name) }):
			err = e.encoder.checkOrder(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkOrder refuses maps in a value whose fields are in an order.
func (e *encoder) checkOrder(name string, v reflect.Value) error {
	v = indirect(v)
	if v.IsValid() && v.Kind() == reflect.Map && v.Len() > 1 && !e.encodesItself(v.Type()) && !slices.ContainsFunc(v.MapKeys(), isOperator) {
		return fmt.Errorf("%q has a %v of several fields, in which they have no order: it would name another document each time; give a bson.D or a struct", name, v.Type())
	}
	for _, value := range e.fieldsOf(v) {
		if err := e.checkOrder(name, value); err != nil {
			return err
		}
	}
	if _, isD := valueOf[bson.D](v); isD {
		return nil
	}
	if v.IsValid() && v.Kind() == reflect.Struct && !e.encodesItself(v.Type()) {
		for i := range v.NumField() {
			if _, inline := fieldName(v.Type().Field(i)); inline { // its fields are those of the struct
				if err := e.checkOrder(name, v.Field(i)); err != nil {
					return err
				}
			}
		}
	}
	for i := range lengthOf(v) {
		if err := e.checkOrder(name, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func isOperator(key reflect.Value) bool {
	return key.Kind() == reflect.String && strings.HasPrefix(key.String(), "$")
}

// fieldsOf are the names and the values of a document's fields, before it is encoded.
func (e *encoder) fieldsOf(v reflect.Value) func(yield func(string, reflect.Value) bool) {
	return func(yield func(string, reflect.Value) bool) {
		v := indirect(v)
		if !v.IsValid() || e.encodesItself(v.Type()) {
			return
		}
		if d, isD := valueOf[bson.D](v); isD {
			for _, field := range d {
				if !yield(field.Key, reflect.ValueOf(field.Value)) {
					return
				}
			}
			return
		}
		switch v.Kind() {
		case reflect.Map:
			for _, key := range v.MapKeys() {
				if !yield(fmt.Sprint(key), v.MapIndex(key)) {
					return
				}
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name, inline := fieldName(v.Type().Field(i))
				if inline {
					for name, value := range e.fieldsOf(v.Field(i)) {
						if !yield(name, value) {
							return
						}
					}
				} else if name != "" && !yield(name, v.Field(i)) {
					return
				}
			}
		}
	}
}

// fieldName is the name of a struct's field in a document, or "" for none.
func fieldName(field reflect.StructField) (name string, inline bool) {
	tag, tagged := field.Tag.Lookup("bson")
	if !tagged {
		tag = field.Tag.Get("json")
	}
	name, options, _ := strings.Cut(tag, ",")
	switch {
	case !field.IsExported() || name == "-":
		return "", false
	case slices.Contains(strings.Split(options, ","), "inline"):
		return "", true
	case name == "":
		return strings.ToLower(field.Name), false
	default:
		return name, false
	}
}

// encodesItself says that the caller's code, and not the driver's for all values of its
// kind, encodes a type.
func (e *encoder) encodesItself(t reflect.Type) bool {
	var usual reflect.Type
	switch t.Kind() {
	case reflect.Map:
		usual = reflect.TypeFor[map[string]any]()
	case reflect.Struct:
		usual = reflect.TypeFor[struct{}]()
	default:
		return false
	}
	own, err := e.registry.LookupEncoder(t)
	common, _ := plainRegistry.LookupEncoder(usual)
	return err != nil || reflect.TypeOf(own) != reflect.TypeOf(common)
}

// indirect is what pointers and interfaces lead to, or the zero Value.
func indirect(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}

func valueOf[T any](v reflect.Value) (t T, is bool) {
	if !v.IsValid() || !v.CanInterface() || !v.Type().ConvertibleTo(reflect.TypeFor[T]()) || v.Kind() != reflect.Slice {
		return t, false
	}
	return v.Convert(reflect.TypeFor[T]()).Interface().(T), true
}

// lengthOf is the number of elements of an array whose elements are no bytes.
func lengthOf(v reflect.Value) int {
	v = indirect(v)
	if !v.IsValid() || v.Kind() != reflect.Slice && v.Kind() != reflect.Array || v.Type().Elem().Kind() == reflect.Uint8 {
		return 0
	}
	return v.Len()
}
