package history

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A batch of renewals is as many commands; an update that isn't one is none.
func TestReadCommandsOfABatch(t *testing.T) {
	statement := func(document, id string, token int64) bson.D {
		entry := bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(id)}}, {Key: "fence", Value: token}}
		return bson.D{
			{Key: "q", Value: bson.D{{Key: "_id", Value: document}, {Key: "lock.tags.read", Value: bson.D{{Key: "$elemMatch", Value: entry}}}}},
			{Key: "u", Value: bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "lock.tags.read", Value: "$$NOW"}}}}}},
		}
	}
	body := func(statements ...any) bson.Raw {
		raw, err := bson.Marshal(bson.D{{Key: "update", Value: "documents"}, {Key: "updates", Value: bson.A(statements)}})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	one, two := statement("a", "0123456789abcdef", 7), statement("b", "fedcba9876543210", 8)
	commands := readCommands(body(one, two))
	if len(commands) != 2 {
		t.Fatalf("read %+v", commands)
	}
	for i, c := range commands {
		if c.Kind != CommandRenew || c.Tag != "read" || c.Document != []string{"a", "b"}[i] || c.Token != int64(7+i) || c.ID == "" {
			t.Errorf("read %+v", c)
		}
	}
	insert := bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: "a"}}}, {Key: "u", Value: bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: "lock", Value: bson.D{}}}}}}}
	if commands := readCommands(body(insert)); commands != nil {
		t.Errorf("an insert was read as %+v", commands)
	}
}

// Where not all matched, nobody knows which did.
func TestMatchedAll(t *testing.T) {
	for _, c := range []struct {
		reply bson.M
		want  bool
	}{
		{bson.M{"ok": 1, "n": 2, "nModified": 1}, true},
		{bson.M{"ok": 1, "n": 1}, false},
		{bson.M{"ok": 1, "n": 2, "writeErrors": bson.A{bson.M{"index": 2}}}, false},
		{bson.M{"ok": 1, "n": 2, "writeConcernError": bson.M{"code": 64}}, false},
	} {
		raw, err := bson.Marshal(c.reply)
		if err != nil {
			t.Fatal(err)
		}
		if got := matchedAll(raw, 2); got != c.want {
			t.Errorf("%v: %v", c.reply, got)
		}
	}
}
