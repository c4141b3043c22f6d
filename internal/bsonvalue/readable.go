package bsonvalue

import (
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Readable is a BSON value as people write it, on one line: 7, "A-17", {"$oid":"…"}.
func Readable(v bson.RawValue) string {
	const before, after = `{"v":`, `}`
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil || len(text) < len(before)+len(after) {
		return oneline.Text(v.String())
	}
	return oneline.Text(string(text[len(before) : len(text)-len(after)]))
}
