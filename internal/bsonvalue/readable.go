package bsonvalue

import "go.mongodb.org/mongo-driver/v2/bson"

// Readable is a BSON value as people write it: 7, "A-17", {"$oid":"…"}.
func Readable(v bson.RawValue) string {
	const before, after = `{"v":`, `}`
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil || len(text) < len(before)+len(after) {
		return v.String()
	}
	return string(text[len(before) : len(text)-len(after)])
}
