package history

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A batch of renewals is that many commands. An update that is no batch is
// none.
func TestReadCommandsOfABatch(t *testing.T) {
	statement := func(document, id string, fence int64) bson.D {
		entry := bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(id)}}, {Key: "fence", Value: fence}}
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
		if c.Kind != CommandRenew || c.Tag != "read" || c.Document != []string{"a", "b"}[i] || c.Fence != int64(7+i) || c.ID == "" {
			t.Errorf("read %+v", c)
		}
	}
	insert := bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: "a"}}}, {Key: "u", Value: bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: "lock", Value: bson.D{}}}}}}}
	if commands := readCommands(body(insert)); commands != nil {
		t.Errorf("an insert was read as %+v", commands)
	}
}

// If not all matched, it is unknown which did.
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

// A handoff is a release and the successor's request, with or without an
// update.
func TestReadCommandOfAHandoff(t *testing.T) {
	id := func(text string) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(text)} }
	own, successor := id("0123456789abcdef"), id("fedcba9876543210")
	leave := bson.D{{Key: "$set", Value: bson.D{{Key: "lock.tags.read", Value: bson.A{"$lock.tags.read", own}}}}}
	write := bson.D{{Key: "$set", Value: bson.D{{Key: "log", Value: "7/w:1"}}}}
	finish := bson.D{{Key: "$set", Value: bson.D{{Key: "lock.tags.read", Value: bson.A{own}}, {Key: "lock.done", Value: bson.A{own}}}}}
	live := bson.E{Key: "live", Value: bson.A{"$lock.tags.read", "$lock.tags.write", "$$NOW"}}
	with := func(entry bson.D) bson.E {
		return bson.E{Key: "tags", Value: bson.D{{Key: "read", Value: "$$live"}, {Key: "write", Value: bson.D{{Key: "$concatArrays", Value: bson.A{entry}}}}}}
	}
	try := bson.D{{Key: "$set", Value: bson.D{{Key: "lock", Value: bson.D{live, with(bson.D{
		{Key: "id", Value: successor}, {Key: "owner", Value: bson.D{{Key: "$literal", Value: "me"}}},
	})}}}}}
	confirm := bson.D{{Key: "$set", Value: bson.D{{Key: "lock", Value: bson.D{live, with(bson.D{{Key: "own", Value: successor}})}}}}}
	set := bson.D{
		{Key: "$push", Value: bson.D{{Key: "log", Value: "7/w:1"}, {Key: "lock.done", Value: own}}},
		{Key: "$set", Value: bson.D{{Key: "lock.tags.read.0.id", Value: successor}, {Key: "lock.tags.read.0.owner", Value: "me"}}},
	}
	for name, c := range map[string]struct {
		update any
		want   [2]Command
	}{
		"to a new one":       {bson.A{leave, try}, [2]Command{{Kind: CommandRelease}, {Kind: CommandAcquire, Tag: "write", Owner: "me"}}},
		"to one that waits":  {bson.A{leave, confirm}, [2]Command{{Kind: CommandRelease}, {Kind: CommandConfirm, Tag: "write"}}},
		"with a pipeline":    {bson.A{write, finish, try}, [2]Command{{Kind: CommandWriteAndRelease, Write: "w:1"}, {Kind: CommandAcquire, Tag: "write", Owner: "me"}}},
		"by compare-and-set": {set, [2]Command{{Kind: CommandWriteAndRelease, Write: "w:1"}, {Kind: CommandAcquire, Tag: "read", Owner: "me", Inherits: true}}},
	} {
		guard := bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "id", Value: own}, {Key: "fence", Value: int64(7)}}}}
		body, err := bson.Marshal(bson.D{
			{Key: "findAndModify", Value: "documents"},
			{Key: "query", Value: bson.D{{Key: "_id", Value: "a"}, {Key: "lock.tags.read", Value: guard}, {Key: "lock.fence", Value: int64(9)}}},
			{Key: "update", Value: c.update},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := ReadCommand(body)
		for i := range c.want {
			w := &c.want[i]
			w.Document = "a"
			if i == 0 {
				w.Tag, w.Fence, w.ID = "read", 7, hex.EncodeToString(own.Data)
			} else {
				w.Handed, w.ID = true, hex.EncodeToString(successor.Data)
			}
		}
		if diff := cmp.Diff(c.want[:], got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A clean-up is a release of each of its ids. Those whose entries its image has
// are done.
func TestReadCommandOfACleanUp(t *testing.T) {
	id := func(text string) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(text)} }
	there, not := id("0123456789abcdef"), id("fedcba9876543210")
	among := bson.D{{Key: "$in", Value: bson.A{there, not}}}
	body, err := bson.Marshal(bson.D{
		{Key: "findAndModify", Value: "documents"},
		{Key: "query", Value: bson.D{{Key: "_id", Value: "a"}, {Key: "lock.tags.read.id", Value: among}}},
		{Key: "update", Value: bson.D{{Key: "$pull", Value: bson.D{{Key: "lock.tags.read", Value: bson.D{{Key: "id", Value: among}}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	entry := bson.D{{Key: "id", Value: there}, {Key: "seq", Value: int64(7)}}
	before := bson.D{{Key: "_id", Value: "a"}, {Key: "lock", Value: bson.D{{Key: "tags", Value: bson.D{{Key: "read", Value: bson.A{entry}}}}}}}
	reply, err := bson.Marshal(bson.D{{Key: "value", Value: before}})
	if err != nil {
		t.Fatal(err)
	}
	got := ReadCommand(body)
	for i := range got {
		got[i].readReply(reply, true)
	}
	release := Command{Kind: CommandRelease, Document: "a", Tag: "read"}
	done, none := release, release
	done.ID, none.ID = hex.EncodeToString(there.Data), hex.EncodeToString(not.Data)
	done.Matched, done.Own = true, &Entry{Tag: "read", ID: done.ID, Seq: 7}
	if diff := cmp.Diff([]Command{done, none}, got); diff != "" {
		t.Error(diff)
	}
}
