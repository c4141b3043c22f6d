package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// value marshals a part of a command that is the library's own. In a command it
// may stand beside the caller's parts, but the caller's registry and BSON
// options can't alter it.
func value(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("doclock: marshal a value of the library's own: %v", err))
	}
	return bson.RawValue{Type: kind, Value: data}
}

// encoded is a part of a command, which may be encoded already.
func encoded(part any) bson.RawValue {
	switch part := part.(type) {
	case bson.RawValue:
		return part
	case bson.Raw:
		return embedded(part)
	default:
		return value(part)
	}
}

// idValue is an id in the document's form.
func idValue(id uuid.UUID) bson.RawValue {
	data := append(make([]byte, 0, 5+len(id)), byte(len(id)), 0, 0, 0, bson.TypeBinaryUUID) // every command has one or two
	return bson.RawValue{Type: bson.TypeBinary, Value: append(data, id[:]...)}
}

// long is a number in the document's form. It needs no encoder.
func long(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// textValue is a text in the document's form.
func textValue(s string) bson.RawValue {
	data := binary.LittleEndian.AppendUint32(make([]byte, 0, len(s)+5), uint32(len(s)+1))
	return bson.RawValue{Type: bson.TypeString, Value: append(append(data, s...), 0)}
}

// A template is a part of a command, encoded once. Only the entry's id, which has a
// fixed width, changes from one command to the next: to fill it in is a copy and a few
// overwritten bytes, without reflection.
type template struct {
	bson.RawValue
	ids []int // offsets of the id
}

// placeholder is what a template has in the place of the id. It is random: nothing else
// in a command is mistaken for it.
var placeholder = idValue(uuid.New())

func newTemplate(v any) *template {
	t, id := &template{RawValue: value(v)}, placeholder.Value[5:]
	for from := 0; ; from += len(id) {
		i := bytes.Index(t.Value[from:], id)
		if i < 0 {
			return t
		}
		from += i
		t.ids = append(t.ids, from)
	}
}

func (t *template) fill(id uuid.UUID) bson.RawValue {
	if len(t.ids) == 0 {
		return t.RawValue
	}
	filled := clone(t.RawValue)
	for _, i := range t.ids {
		copy(filled.Value[i:], id[:])
	}
	return filled
}

// firstStage is the only stage of a pipeline.
func firstStage(pipeline bson.RawValue) bson.Raw { return pipeline.Array().Index(0).Document() }

// assembly is a document, or an array, that is put together from encoded
// values. Whole elements may be appended to it.
type assembly []byte

// assemble begins one with room for size bytes of elements.
func assemble(size int) assembly { return make(assembly, 4, size+5) }

func (a assembly) add(key string, v bson.RawValue) assembly {
	a = append(a, byte(v.Type))
	a = append(a, key...)
	a = append(a, 0)
	return append(a, v.Value...)
}

func (a assembly) end() bson.Raw {
	a = append(a, 0)
	binary.LittleEndian.PutUint32(a, uint32(len(a)))
	return bson.Raw(a)
}

// field is a document with one field.
func field(key string, v bson.RawValue) bson.Raw {
	return assemble(len(key)+len(v.Value)+2).add(key, v).end()
}

// joined is a document with the elements of both.
func joined(a, b bson.Raw) bson.Raw {
	elements := func(doc bson.Raw) []byte { return doc[4 : len(doc)-1] }
	return append(append(assemble(len(a)+len(b)), elements(a)...), elements(b)...).end()
}

func embedded(doc bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}
}

func array(values ...bson.RawValue) bson.RawValue {
	size := 0
	for _, v := range values {
		size += len(v.Value) + 8
	}
	a := assemble(size)
	for i, v := range values {
		a = a.add(strconv.Itoa(i), v)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: a.end()}
}

func arrayOfDocuments(docs []bson.Raw) bson.RawValue {
	values := make([]bson.RawValue, len(docs))
	for i, doc := range docs {
		values[i] = embedded(doc)
	}
	return array(values...)
}

// without returns a copy of doc that lacks a top-level field.
func without(doc bson.Raw, field string) (bson.Raw, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	kept := assemble(len(doc))
	for _, e := range elements {
		if e.Key() != field {
			kept = append(kept, e...)
		}
	}
	return kept.end(), nil
}

func clone(v bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: v.Type, Value: bytes.Clone(v.Value)}
}
