package recorded

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Differs says how a server's outcome differs from the recorded one, or nothing. What
// may differ stands here alone: the texts of messages and the names of codes, a code
// that wasn't recorded, the _ids that a server makes, the order of a reply's fields, and
// the sign of a NaN.
func (r Recording) Differs(got Outcome) string {
	refused := got.Message != ""
	switch {
	case refused != (r.Message != ""):
	case refused && r.Code != 0 && r.Code != got.Code:
	case !refused && !r.same(sorted(r.Reply), sorted(got.Reply)):
	case !slices.EqualFunc(r.Stored, got.Stored, r.same):
	default:
		return ""
	}
	return fmt.Sprintf("%s %d\n%v\n%v\nrecorded: %v\n%v\nbut: %v\n%v", r.Kind, r.N, r.Documents, r.Command, r.Outcome.answer(), r.Stored, got.answer(), got.Stored)
}

func (o Outcome) answer() string {
	if o.Message != "" {
		return fmt.Sprintf("(%d) %s", o.Code, o.Message)
	}
	return o.Reply.String()
}

// sorted is a reply with its fields by their names.
func sorted(reply bson.Raw) bson.Raw {
	fields := bson.D{}
	_ = bson.Unmarshal(reply, &fields)
	slices.SortFunc(fields, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	raw, _ := bson.Marshal(fields)
	return raw
}

func (r Recording) same(a, b bson.Raw) bool {
	return bytes.Equal(a, b) || bytes.Equal(r.blankUnknown(a), r.blankUnknown(b))
}

// blankUnknown is a document without what may differ.
func (r Recording) blankUnknown(document bson.Raw) bson.Raw {
	made := func(id []byte) bool {
		return !bytes.Contains(r.Command, id) && !slices.ContainsFunc(r.Documents, func(d bson.Raw) bool { return bytes.Contains(d, id) })
	}
	document = bytes.Clone(document)
	var blank func(v bson.RawValue)
	blank = func(v bson.RawValue) {
		switch v.Type {
		case bson.TypeObjectID:
			if made(v.Value) {
				clear(v.Value)
			}
		case bson.TypeDouble, bson.TypeDecimal128:
			if value.IsNaN(v) {
				copy(v.Value, "not a number, nor")
			}
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			values, _ := bson.Raw(v.Value).Values()
			for _, inner := range values {
				blank(inner)
			}
		}
	}
	blank(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document})
	return document
}
