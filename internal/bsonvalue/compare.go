package bsonvalue

import (
	"bytes"
	"cmp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Compare is the server's order of values: negative if a comes before b, and 0
// if the server takes them for one value, as it does int32 1, int64 1, double
// 1.0 and decimal 1. It knows no collation: strings are compared byte by byte.
func Compare(a, b bson.RawValue) int {
	kind := class(a.Type)
	if c := cmp.Compare(kind, class(b.Type)); c != 0 {
		return c
	}
	switch kind {
	case numbers:
		return compareNumbers(a, b)
	case texts:
		return strings.Compare(text(a), text(b))
	case documents:
		return compareDocuments(a.Value, b.Value)
	case arrays:
		return compareArrays(a.Value, b.Value)
	case binaries:
		return compareBinaries(a, b)
	case dates:
		x, _ := a.DateTimeOK()
		y, _ := b.DateTimeOK()
		return cmp.Compare(x, y)
	case timestamps:
		return compareTimestamps(a, b)
	case regexes:
		return compareRegexes(a, b)
	case scopedCodes:
		return compareScopedCodes(a, b)
	default: // one value, or values whose bytes have their order
		return bytes.Compare(a.Value, b.Value)
	}
}

// The classes of types, in their order. Types of one class are compared by
// value.
const (
	lowest = iota
	undefineds
	nulls
	numbers
	texts
	documents
	arrays
	binaries
	objectIDs
	booleans
	dates
	timestamps
	regexes
	pointers
	codes
	scopedCodes
	highest
)

var classes = map[bson.Type]int{
	bson.TypeMinKey:           lowest,
	bson.TypeUndefined:        undefineds,
	bson.TypeNull:             nulls,
	bson.TypeInt32:            numbers,
	bson.TypeInt64:            numbers,
	bson.TypeDouble:           numbers,
	bson.TypeDecimal128:       numbers,
	bson.TypeString:           texts,
	bson.TypeSymbol:           texts,
	bson.TypeEmbeddedDocument: documents,
	bson.TypeArray:            arrays,
	bson.TypeBinary:           binaries,
	bson.TypeObjectID:         objectIDs,
	bson.TypeBoolean:          booleans,
	bson.TypeDateTime:         dates,
	bson.TypeTimestamp:        timestamps,
	bson.TypeRegex:            regexes,
	bson.TypeDBPointer:        pointers,
	bson.TypeJavaScript:       codes,
	bson.TypeCodeWithScope:    scopedCodes,
	bson.TypeMaxKey:           highest,
}

// class is a type's. One that BSON doesn't have comes after all others, and no
// two of these are equal.
func class(t bson.Type) int {
	if c, known := classes[t]; known {
		return c
	}
	return highest + 1 + int(t)
}

func text(v bson.RawValue) string {
	if s, ok := v.StringValueOK(); ok {
		return s
	}
	s, _ := v.SymbolOK()
	return s
}

// compareDocuments compares field by field: first the classes, then the names,
// then the values.
func compareDocuments(a, b bson.Raw) int {
	return compareElements(a, b, func(x, y bson.RawElement) int {
		return cmp.Or(cmp.Compare(class(x.Value().Type), class(y.Value().Type)), strings.Compare(x.Key(), y.Key()), Compare(x.Value(), y.Value()))
	})
}

func compareArrays(a, b bson.Raw) int {
	return compareElements(a, b, func(x, y bson.RawElement) int { return Compare(x.Value(), y.Value()) })
}

// compareElements compares two lists; the shorter one comes first. Malformed
// ones, which the server would refuse, are compared byte by byte.
func compareElements(a, b bson.Raw, compare func(x, y bson.RawElement) int) int {
	first, malformed := a.Elements()
	second, malformedToo := b.Elements()
	if malformed != nil || malformedToo != nil {
		return bytes.Compare(a, b)
	}
	for i := range min(len(first), len(second)) {
		if c := compare(first[i], second[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(first), len(second))
}

func compareBinaries(a, b bson.RawValue) int {
	kind, data, _ := a.BinaryOK()
	otherKind, other, _ := b.BinaryOK()
	return cmp.Or(cmp.Compare(len(data), len(other)), cmp.Compare(kind, otherKind), bytes.Compare(data, other))
}

func compareTimestamps(a, b bson.RawValue) int {
	t, i, _ := a.TimestampOK()
	otherT, otherI, _ := b.TimestampOK()
	return cmp.Or(cmp.Compare(t, otherT), cmp.Compare(i, otherI))
}

func compareRegexes(a, b bson.RawValue) int {
	pattern, options, _ := a.RegexOK()
	otherPattern, otherOptions, _ := b.RegexOK()
	return cmp.Or(strings.Compare(pattern, otherPattern), strings.Compare(options, otherOptions))
}

func compareScopedCodes(a, b bson.RawValue) int {
	code, scope, _ := a.CodeWithScopeOK()
	otherCode, otherScope, _ := b.CodeWithScopeOK()
	return cmp.Or(strings.Compare(code, otherCode), compareDocuments(scope, otherScope))
}
