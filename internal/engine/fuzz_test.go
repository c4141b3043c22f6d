package engine

import (
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A path in an update, in any position, is refused if it touches the lock or is
// positional, and accepted otherwise.
func FuzzUpdatePath(f *testing.F) {
	for _, path := range []string{
		"", ".", "x", "x.y", "x.0.y", "x.$[].y", "x.$[i]", "$", "$.x", "x.$", "x.$.y", "x$", "x.$y",
		"lock", "lock.", "lock.tags", "lock.tags.write.0.id", "lock.$", ".lock", "x.lock", "locker", "loc", "Lock", "lock\x00", "$lock", "ünï.cödé",
	} {
		f.Add(path)
	}
	e := offline(f, relations.Exclusive())
	f.Fuzz(func(t *testing.T, path string) {
		dotted := "." + path + "."
		refused := strings.HasPrefix(dotted, ".lock.") || strings.Contains(dotted, ".$.")
		noKey := strings.Contains(path, "\x00")
		field := bson.D{{Key: path, Value: 1}}
		for name, update := range map[string]any{
			"$set":         bson.D{{Key: "$set", Value: field}},
			"second":       bson.M{"$inc": bson.D{{Key: "ok", Value: 1}, field[0]}},
			"map":          map[string]map[string]int{"$unset": {path: 1}},
			"$rename from": bson.M{"$rename": bson.M{path: "ok"}},
			"$push":        bson.M{"$push": field},
			"pipeline":     bson.A{bson.M{"$set": field}},
			"second stage": bson.A{bson.M{"$unset": "ok"}, bson.M{"$addFields": field}},
		} {
			if _, err := e.ParseUpdate(update); (err != nil) != (refused || noKey) {
				t.Errorf("%s of %q: %v", name, path, err)
			}
		}
		for name, update := range map[string]any{
			"$rename to":      bson.M{"$rename": bson.M{"ok": path}},
			"pipeline $unset": bson.A{bson.M{"$unset": path}},
			"list of $unset":  bson.A{bson.M{"$unset": bson.A{"ok", path}}},
		} {
			if _, err := e.ParseUpdate(update); (err != nil) != refused {
				t.Errorf("%s of %q: %v", name, path, err)
			}
		}
		if !noKey {
			if _, err := e.ParseUpdate(rawOf(bson.M{"$set": field})); (err != nil) != refused {
				t.Errorf("Raw $set of %q: %v", path, err)
			}
		}
	})
}

// No bytes of an update or a filter make the parsers panic.
func FuzzParseBytes(f *testing.F) {
	for _, doc := range []bson.D{
		{},
		{{Key: "_id", Value: 1}},
		{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 1}}}},
		{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}},
		{{Key: "$rename", Value: bson.D{{Key: "x", Value: "lock"}}}},
		{{Key: "$set", Value: 1}},
	} {
		f.Add([]byte(rawOf(doc)))
	}
	f.Add([]byte{})
	f.Add([]byte{5, 0, 0, 0, 1})
	e := offline(f, relations.Exclusive())
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range []any{data, bson.Raw(data), bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: data}} {
			if u, err := e.ParseUpdate(v); err == nil && len(u.operators) == 0 {
				t.Errorf("an update without operators: %v", data)
			}
			if _, err := e.ParseFilter(v); err == nil && len(data) <= 5 {
				t.Errorf("an empty filter: %v", data)
			}
		}
		for _, stage := range []any{bson.Raw(data), bson.RawValue{Type: bson.TypeArray, Value: data}} {
			_, _ = e.ParseUpdate(bson.A{stage})
		}
		_, _ = e.ParseUpdate(rawArray(data))
	})
}

// rawArray marshals as an array, whatever its bytes are.
type rawArray []byte

func (r rawArray) MarshalBSONValue() (byte, []byte, error) { return byte(bson.TypeArray), r, nil }

// Reading the field never panics, whatever its bytes are, and the result can be
// used.
func FuzzParseLock(f *testing.F) {
	add := func(v any) {
		kind, data, err := bson.MarshalValue(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(kind), data)
	}
	add(stored{fence: n0, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: held, n: 2}, {id: bob, seq: n0 + 1, expires: waits}},
		"write": {{id: cid, seq: n0 + 2, expires: waits}},
	}, done: []uuid.UUID{dan, eve}}.document())
	for name, value := range foreign {
		if name != "undefined" {
			add(value)
		}
	}
	for _, lock := range ours {
		if lock.value != nil {
			add(lock.value)
		}
	}
	add(bson.M{"done": "no list"})
	add(bson.M{"done": bson.A{1, "x", bson.Binary{Subtype: 4, Data: []byte{1}}}})
	f.Add(byte(0), []byte{})
	f.Add(byte(bson.TypeNull), []byte{})
	f.Add(byte(bson.TypeEmbeddedDocument), []byte{5, 0})
	e := offline(f, relations.Fair())
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		lock, _ := parseLock(bson.RawValue{Type: bson.Type(kind), Value: data})
		lock.FinishedBy(ann)
		lock.Find("read", ann)
		img := &Image{Lock: lock, Now: epoch}
		for _, own := range append([]Entry{{}}, lock.Entries...) {
			blocking, free := e.InTheWay(img, "write", &own)
			if free < 0 || free > 0 && len(blocking) == 0 {
				t.Errorf("in the way of %+v: %+v, for %v", own, blocking, free)
			}
		}
	})
}
