package random_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// outcome is what a command did.
type outcome struct {
	refused string // the error
	reply   any
	stored  any
}

func (a attempt) on(t *testing.T, coll *mongo.Collection) outcome {
	t.Helper()
	ctx := t.Context()
	if _, err := coll.DeleteMany(ctx, bson.D{}); err != nil {
		t.Fatal(err)
	}
	if len(a.documents) > 0 {
		if _, err := coll.InsertMany(ctx, a.documents); err != nil {
			return outcome{refused: "insert: " + err.Error()}
		}
	}
	if a.unique != nil {
		if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: a.unique, Options: options.Index().SetUnique(true)}); err != nil {
			return outcome{refused: "index: " + err.Error()}
		}
	}
	command := slices.Clone(a.command)
	command[0].Value = coll.Name()
	raw, err := coll.Database().RunCommand(ctx, command).Raw()
	o := outcome{}
	switch we, ok := raw.Lookup("writeErrors").ArrayOK(); {
	case err != nil:
		o.refused = err.Error()
	case ok:
		o.refused = we.String()
	}
	switch command[0].Key {
	case "find", "aggregate":
		o.reply = normal(raw.Lookup("cursor", "firstBatch"))
	case "findAndModify":
		o.reply = normal(raw.Lookup("value"))
	default:
		o.reply = fmt.Sprint(number(raw, "n"), number(raw, "nModified"), normal(raw.Lookup("upserted")))
	}
	cursor, err := coll.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(ctx, &all); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, d := range all {
		texts = append(texts, normal(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: d}))
	}
	o.stored = strings.Join(texts, "\n")
	return o
}

func number(raw bson.Raw, key string) int64 { n, _ := raw.Lookup(key).AsInt64OK(); return n }

// normal is a value as text, without the order of its fields, and without new ids.
func normal(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		elements, _ := v.Document().Elements()
		var parts []string
		for _, e := range elements {
			if text := normal(e.Value()); text != "{}" { // DocumentDB leaves these behind where a $pop finds nothing
				parts = append(parts, strconv.Quote(e.Key())+": "+text)
			}
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case bson.TypeArray:
		all, _ := v.Array().Values()
		var parts []string
		for _, e := range all {
			parts = append(parts, normal(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case 0:
		return "missing"
	case bson.TypeObjectID:
		return "an id"
	default:
		return v.Type.String() + v.String()
	}
}

// stricter are MongoDB's rules that DocumentDB does not have, or not always.
var stricter = []string{
	"dollar ($) prefixed", "$project specification", "$size must be", "path must lead to an array", "empty field name", "would create a conflict",
	"parallel arrays", "$regex has to be", "Path collision", "must be a nonempty array", "multi update is not",
}

// otherwise are refusals of DocumentDB where MongoDB refuses nothing.
var otherwise = []string{
	"Invalid array index path",                     // an $unset through an array
	"Failed to create the field",                   // a $rename from where nothing can be
	"immutable field '_id'",                        // an upsert whose $pull finds no _id
	"Expected Numeric, document or UTF8",           // an array filter with an array
	"Unable to determine which query fields",       // two operators of one name in a condition
	"$add can only", "$multiply works exclusively", // behind an operand that is null
}

// differ says how memory differs from the server in a way that it must not.
func differ(a attempt, memory, server outcome) string {
	refusedInMemory, refusedByServer := memory.refused != "", server.refused != ""
	holds := func(texts []string, text string) bool {
		return slices.ContainsFunc(texts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case refusedInMemory && (refusedByServer || strings.Contains(memory.refused, "does not support") || holds(stricter, memory.refused)):
		return ""
	case refusedInMemory && memory.stored == server.stored:
		return "" // the server has not looked at what it does not need
	case refusedByServer && !refusedInMemory && (len(a.documents) == 0 || holds(otherwise, server.refused)):
		return "" // it computes what is constant in an expression, documents or not
	case refusedInMemory != refusedByServer:
		return fmt.Sprintf("refused in memory %q, by the server %q", memory.refused, server.refused)
	case memory.stored != server.stored:
		return fmt.Sprintf("stored in memory\n  %v\nby the server\n  %v", memory.stored, server.stored)
	case memory.reply != server.reply:
		return fmt.Sprintf("reply in memory\n  %v\nof the server\n  %v", memory.reply, server.reply)
	}
	return ""
}
