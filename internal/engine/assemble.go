package engine

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
	return append(append(assemble(len(a)+len(b)), elementsOf(a)...), elementsOf(b)...).end()
}

// elementsOf returns a document's elements in their encoded form.
func elementsOf(doc bson.Raw) []byte { return doc[4 : len(doc)-1] }

func embedded(doc bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}
}

// arrayOfDocuments is an array of documents.
func arrayOfDocuments(docs []bson.Raw) bson.RawValue {
	size := 0
	for _, doc := range docs {
		size += len(doc) + 8
	}
	array := assemble(size)
	for i, doc := range docs {
		array = array.add(strconv.Itoa(i), embedded(doc))
	}
	return bson.RawValue{Type: bson.TypeArray, Value: array.end()}
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
