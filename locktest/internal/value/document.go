package value

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Field is one field of a document.
type Field struct {
	Key   string
	Value bson.RawValue
}

// Document is a document that is open: its fields can be changed. What is nested
// in it is closed.
type Document []Field

// each are the fields of an encoded document, or the elements of an encoded array.
func each(data []byte) iter.Seq2[string, bson.RawValue] {
	return func(yield func(string, bson.RawValue) bool) {
		if len(data) < 5 {
			return
		}
		for rest := data[4 : len(data)-1]; len(rest) > 0; {
			end := bytes.IndexByte(rest, 0)
			if end < 1 {
				return
			}
			key := rest[1:end]
			v, err := bson.RawElement(rest).ValueErr()
			if err != nil || !yield(string(key), v) {
				return
			}
			rest = rest[end+1+len(v.Value):]
		}
	}
}

// Fields are the fields of a document. Any other value but an array has none.
func Fields(v bson.RawValue) iter.Seq2[string, bson.RawValue] {
	var data []byte
	if IsDocument(v) || IsArray(v) {
		data = v.Value
	}
	return each(data) // of one function, so that what a loop changes needs no memory of its own
}

// Names are the names of a document's fields.
func Names(v bson.RawValue) (names []string) {
	for name := range Fields(v) {
		names = append(names, name)
	}
	return names
}

// Open opens a document. Any other value has no fields.
func Open(v bson.RawValue) Document {
	var d Document
	if IsDocument(v) {
		for key, field := range each(v.Value) {
			d = append(d, Field{key, field})
		}
	}
	return d
}

// Doc is an encoded document as a value.
func Doc(raw bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
}

// Get is a field of a document, or a missing value.
func Get(v bson.RawValue, key string) bson.RawValue {
	if IsDocument(v) {
		for k, field := range each(v.Value) {
			if k == key {
				return field
			}
		}
	}
	return Missing
}

// Get is a field, or a missing value.
func (d Document) Get(key string) bson.RawValue {
	if i := d.find(key); i >= 0 {
		return d[i].Value
	}
	return Missing
}

func (d Document) find(key string) int {
	return slices.IndexFunc(d, func(f Field) bool { return f.Key == key })
}

// Set sets a field in its place, or at the end. A missing value removes it.
func (d Document) Set(key string, v bson.RawValue) Document {
	switch i := d.find(key); {
	case i >= 0 && IsMissing(v):
		return slices.Delete(d, i, i+1)
	case i >= 0:
		d[i].Value = v
	case !IsMissing(v):
		d = append(d, Field{key, v})
	}
	return d
}

// Close encodes the document.
func (d Document) Close() bson.RawValue {
	size := 5
	for _, f := range d {
		size += len(f.Key) + len(f.Value.Value) + 2
	}
	data := make([]byte, 4, size)
	for _, f := range d {
		data = append(data, byte(f.Value.Type))
		data = append(data, f.Key...)
		data = append(data, 0)
		data = append(data, f.Value.Value...)
	}
	data = append(data, 0)
	binary.LittleEndian.PutUint32(data, uint32(len(data)))
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: data}
}
