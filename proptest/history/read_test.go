package history

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The commands for tokens, downgrades and entries that leave a remainder.
func TestReadCommandOfTerms(t *testing.T) {
	id := func(text string) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(text)} }
	own, key, next := id("0123456789abcdef"), id("kkkkkkkkkkkkkkkk"), id("fedcba9876543210")
	set := func(path string, v any) bson.A {
		return bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: v}}}}}
	}
	now := bson.D{{Key: "$add", Value: bson.A{"$$NOW", 9}}}
	guard := bson.D{{Key: "lock.tags.read", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "id", Value: own}, {Key: "fence", Value: int64(7)}}}}}}
	shown := bson.D{{Key: "lock.tags.read", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "key", Value: key}, {Key: "fence", Value: bson.D{{Key: "$gt", Value: 0}}}}}}}}
	remainder := bson.D{{Key: "id", Value: next}, {Key: "owner", Value: "$$e.owner"}}
	hexed := func(b bson.Binary) string { return hex.EncodeToString(b.Data) }
	for name, c := range map[string]struct {
		query  bson.D
		update any
		want   Command
	}{
		"detach": {guard, set("lock.tags.read", bson.A{own, bson.D{{Key: "key", Value: key}, {Key: "detached", Value: true}, {Key: "expires", Value: now}}}),
			Command{Kind: CommandDetach, Tag: "read", ID: hexed(own), Fence: 7, Key: hexed(key)}},
		"resume": {shown, set("lock", bson.A{next, bson.D{{Key: "id", Value: next}, {Key: "owner", Value: bson.D{{Key: "$literal", Value: "me"}}}, {Key: "key", Value: key}, {Key: "expires", Value: now}}}),
			Command{Kind: CommandResume, Tag: "read", ID: hexed(next), Key: hexed(key), Owner: "me"}},
		"touch": {shown, set("lock.tags.read", bson.A{key, now}), Command{Kind: CommandTouch, Tag: "read", Key: hexed(key)}},
		"downgrade": {bson.D{}, set("lock", bson.A{next, own, bson.D{{Key: "tags", Value: bson.D{{Key: "read", Value: bson.D{{Key: "$concatArrays", Value: bson.A{
			bson.A{bson.D{{Key: "id", Value: next}, {Key: "owner", Value: "$$own.owner"}}}}}}}}}}}),
			Command{Kind: CommandDowngrade, Tag: "read", ID: hexed(next), From: hexed(own)}},
		"last write, which leaves a remainder": {guard, bson.A{set("log", "7/w:1")[0], set("lock.tags.read", bson.A{own, remainder, "$$NOW"})[0], set("lock.done", bson.A{own})[0]},
			Command{Kind: CommandWriteAndRelease, Tag: "read", ID: hexed(own), Fence: 7, Write: "w:1"}},
		"last write, by operators": {guard, bson.D{{Key: "$push", Value: bson.D{{Key: "log", Value: "7/w:1"}}}, {Key: "$set", Value: bson.D{{Key: "lock.tags.read.$[doclock].id", Value: next}}}},
			Command{Kind: CommandWriteAndRelease, Tag: "read", ID: hexed(own), Fence: 7, Write: "w:1"}},
	} {
		body, err := bson.Marshal(bson.D{
			{Key: "findAndModify", Value: "documents"},
			{Key: "query", Value: append(bson.D{{Key: "_id", Value: "a"}}, c.query...)},
			{Key: "update", Value: c.update},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.want.Document = "a"
		if diff := cmp.Diff([]Command{c.want}, ReadCommand(body)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
