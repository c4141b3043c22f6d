package history

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func doc(pairs ...any) (d bson.D) {
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

// message is the driver's, or a reply to it.
func message(t *testing.T, pairs ...any) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(doc(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func id(text string) bson.Binary {
	return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(text)}
}

func hexed(b bson.Binary) string { return hex.EncodeToString(b.Data) }

var own, next, key = id("0123456789abcdef"), id("fedcba9876543210"), id("kkkkkkkkkkkkkkkk")

// The commands whose forms differ the most. A handoff is a release and the successor's
// request, with or without an update.
func TestReadCommand(t *testing.T) {
	set := func(pairs ...any) bson.D { return doc("$set", doc(pairs...)) }
	now := doc("$add", bson.A{"$$NOW", 9})
	match := func(more ...any) bson.D {
		return doc("lock.tags.read", doc("$elemMatch", doc(append([]any{"id", own, "fence", int64(7)}, more...)...)))
	}
	guard := match()
	shown := doc("lock.tags.read", doc("$elemMatch", doc("key", key, "fence", doc("$gt", 0))))
	remainder := doc("id", next, "owner", "$$e.owner")
	leave, write := set("lock.tags.read", bson.A{"$lock.tags.read", own}), set("log", "7/w:1")
	finish := set("lock.tags.read", bson.A{own}, "lock.done", bson.A{own})
	arrival := func(entry bson.D) bson.D {
		return set("lock", doc("live", bson.A{"$lock.tags.read", "$lock.tags.write", "$$NOW"},
			"tags", doc("read", "$$live", "write", doc("$concatArrays", bson.A{entry}))))
	}
	try, confirm := arrival(doc("id", next, "owner", doc("$literal", "me"))), arrival(doc("own", next))
	mine := Command{Tag: "read", ID: hexed(own), Fence: 7}
	as := func(c Command, kind, write string) Command { c.Kind, c.Write = kind, write; return c }
	theirs := Command{Kind: CommandAcquire, Tag: "write", ID: hexed(next), Owner: "me", Handed: true}
	for name, c := range map[string]struct {
		query  bson.D
		update any
		want   []Command
	}{
		"detach": {guard, bson.A{set("lock.tags.read", bson.A{own, doc("key", key, "detached", true, "expires", now)})},
			[]Command{{Kind: CommandDetach, Tag: "read", ID: hexed(own), Fence: 7, Key: hexed(key)}}},
		"resume": {shown, bson.A{set("lock", bson.A{next, doc("id", next, "owner", doc("$literal", "me"), "key", key, "expires", now)})},
			[]Command{{Kind: CommandResume, Tag: "read", ID: hexed(next), Key: hexed(key), Owner: "me"}}},
		"touch": {shown, bson.A{set("lock.tags.read", bson.A{key, now})}, []Command{{Kind: CommandTouch, Tag: "read", Key: hexed(key)}}},
		"take-over": {nil, bson.A{set("lock", bson.A{doc("$in", bson.A{next, "$lock.tags.write.id"}), bson.A{doc("id", own, "fence", int64(7))}, doc("write", doc("$concatArrays", bson.A{bson.A{doc("id", next, "owner", doc("$literal", "bob"), "fence", "$$next")}}))})},
			[]Command{{Kind: CommandAcquire, Tag: "write", ID: hexed(next), Owner: "bob", Named: []Name{{hexed(own), 7}}}}},
		"convert": {nil, bson.A{set("lock", bson.A{next, own, doc("tags", doc("read", doc("$concatArrays", bson.A{bson.A{doc("id", next, "owner", "$$own.owner")}})))})},
			[]Command{{Kind: CommandConvert, Tag: "read", ID: hexed(next), From: hexed(own)}}},
		"write": {match("n", doc("$not", doc("$gte", int64(3)))), doc("$push", doc("log", "7/w:1"), "$set", doc("lock.tags.read.$.n", int64(3))),
			[]Command{{Kind: CommandWrite, Tag: "read", ID: hexed(own), Fence: 7, K: 3, Write: "w:1"}}},
		"last write, which leaves a remainder": {guard, bson.A{write, set("lock.tags.read", bson.A{own, remainder, "$$NOW"}), set("lock.done", bson.A{own})},
			[]Command{as(mine, CommandWriteAndRelease, "w:1")}},
		"handoff to a new one":      {guard, bson.A{leave, try}, []Command{as(mine, CommandRelease, ""), theirs}},
		"handoff to one that waits": {guard, bson.A{leave, confirm}, []Command{as(mine, CommandRelease, ""), {Kind: CommandConfirm, Tag: "write", ID: hexed(next), Handed: true}}},
		"handoff with a pipeline":   {guard, bson.A{write, finish, try}, []Command{as(mine, CommandWriteAndRelease, "w:1"), theirs}},
		"handoff by compare-and-set": {doc("lock.tags.read.0.id", own, "lock.tags.read.0.fence", int64(7), "lock.fence", int64(9)),
			doc("$push", doc("log", "7/w:1", "lock.done", own), "$set", doc("lock.tags.read.0.id", next, "lock.tags.read.0.owner", "me")),
			[]Command{as(mine, CommandWriteAndRelease, "w:1"), {Kind: CommandAcquire, Tag: "read", ID: hexed(next), Owner: "me", Handed: true, Inherits: true}}},
	} {
		for i := range c.want {
			c.want[i].Document = "a"
		}
		got := readCommands(message(t, "findAndModify", "documents", "query", append(doc("_id", "a"), c.query...), "update", c.update))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A batch of renewals is that many commands. An update that is no batch is none. If not
// all matched, it is unknown which did.
func TestReadCommandsOfABatch(t *testing.T) {
	statement := func(document string, of bson.Binary, fence int64) bson.D {
		return doc("q", doc("_id", document, "lock.tags.read", doc("$elemMatch", doc("id", of, "fence", fence))), "u", bson.A{doc("$set", doc("lock.tags.read", "$$NOW"))})
	}
	want := []Command{{Kind: CommandRenew, Document: "a", Tag: "read", ID: hexed(own), Fence: 7}, {Kind: CommandRenew, Document: "b", Tag: "read", ID: hexed(next), Fence: 8}}
	if diff := cmp.Diff(want, readCommands(message(t, "update", "documents", "updates", bson.A{statement("a", own, 7), statement("b", next, 8)}))); diff != "" {
		t.Error(diff)
	}
	insert := doc("q", doc("_id", "a"), "u", doc("$setOnInsert", doc("lock", doc())))
	if commands := readCommands(message(t, "update", "documents", "updates", bson.A{insert})); commands != nil {
		t.Errorf("an insert was read as %+v", commands)
	}
	for name, c := range map[string]struct {
		reply bson.Raw
		want  bool
	}{
		"both":                  {message(t, "ok", 1, "n", 2, "nModified", 1), true},
		"one":                   {message(t, "ok", 1, "n", 1), false},
		"a write error":         {message(t, "ok", 1, "n", 2, "writeErrors", bson.A{doc("index", 2)}), false},
		"a write-concern error": {message(t, "ok", 1, "n", 2, "writeConcernError", doc("code", 64)), false},
	} {
		if got := matchedAll(c.reply, 2); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A clean-up is a release of each of its ids. Those whose entries its image has
// are done. A claim's clean-up looks by the claim's filter, which names no document: the reply does. Of
// several ids, those without an entry in that document may be in another one.
func TestReadCommandOfACleanUp(t *testing.T) {
	ids := doc("$in", bson.A{own, next})
	free := doc("id", ids, "key", nil)
	caller := doc("group", "jobs", "$and", bson.A{doc("lock.tags.read.owner", doc("$ne", "me"))})
	removed := Command{Kind: CommandRelease, Document: "a", Tag: "read", ID: hexed(next), Matched: true, Own: &Entry{Tag: "read", ID: hexed(next), Seq: 7}}
	before := message(t, "value", doc("_id", "a", "lock", doc("tags", doc("read", bson.A{doc("id", next, "seq", int64(7))}))))
	for document, c := range map[string]struct{ query, pulled bson.D }{
		"a": {doc("_id", "a", "lock.tags.read.id", ids), doc("id", ids)},
		"":  {doc("$and", bson.A{caller, doc("lock.tags.read", doc("$elemMatch", free))}), free},
	} {
		got := readCommands(message(t, "findAndModify", "documents", "query", c.query, "update", doc("$pull", doc("lock.tags.read", c.pulled))))
		for i := range got {
			got[i].readReply(before, true)
		}
		want := []Command{{Kind: CommandRelease, Document: document, Tag: "read", ID: hexed(own)}, removed}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A batch of claims may have made an entry in each of its documents: the read after it shows in which. A release of several
// is read by its comment: a caller's own update under a guard looks the same.
func TestReadCommandsOfClaimsTogether(t *testing.T) {
	statements := func(comment string, all ...any) bson.Raw {
		return message(t, "update", "documents", "comment", comment, "updates", bson.A(all))
	}
	named := doc("_id", doc("$in", bson.A{"a", "b"}))
	arrives := bson.A{doc("$set", doc("lock", doc("tags", doc("read", bson.A{doc("id", own, "owner", doc("$literal", "me"))}))))}
	guard := doc("_id", "a", "lock.tags.read", doc("$elemMatch", doc("id", own, "fence", int64(7))))
	pull := doc("$pull", doc("lock.tags.read", doc("id", own)))
	claim := Command{Kind: CommandAcquire, Tag: "read", ID: hexed(own), Owner: "me", Claims: true}
	for name, c := range map[string]struct {
		body bson.Raw
		want []Command
	}{
		"claim":    {statements("doclock claim", doc("q", doc("$and", bson.A{doc("group", "jobs"), named}), "u", arrives, "multi", true)), []Command{in("a", claim), in("b", claim)}},
		"release":  {statements("doclock release", doc("q", guard, "u", pull)), []Command{in("a", Command{Kind: CommandRelease, Tag: "read", ID: hexed(own), Fence: 7})}},
		"a user's": {statements("", doc("q", guard, "u", pull)), nil},
		"read": {message(t, "find", "documents", "comment", "doclock claim", "filter", named, "projection", doc(nowKey, "$$NOW")),
			[]Command{in("a", Command{Kind: CommandRead}), in("b", Command{Kind: CommandRead})}},
	} {
		if diff := cmp.Diff(c.want, readCommands(c.body)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	read := in("b", Command{Kind: CommandRead})
	read.readReply(message(t, "cursor", doc("firstBatch", bson.A{doc("_id", "c"), doc("_id", "b", "lock", doc("fence", int64(9)))})), true)
	if !read.Matched || read.Image.Fence != 9 {
		t.Errorf("the read of b shows %v", read.Image)
	}
}

func in(document string, c Command) Command {
	c.Document = document
	return c
}

// A read of one document's lock, as a claim's look-up of its id, is an image. A read of anything
// else is not recorded, and one that finds nothing shows nothing.
func TestRecordedReads(t *testing.T) {
	kept := Keep()
	r := NewRecorder(3, "db", Clock{}, kept)
	fields := doc("lock", 1, nowKey, "$$NOW")
	find := func(at int64, found []any, pairs ...any) {
		filter := doc("$and", bson.A{doc("group", "jobs"), doc("lock.tags.read.id", own)})
		r.Message(Message{Request: at, Name: "find", At: at, Command: message(t, append([]any{"find", "documents", "filter", filter}, pairs...)...)})
		r.Message(Message{Request: at, Name: "find", At: at + 1, Reply: message(t, "cursor", doc("firstBatch", bson.A(found), "id", int64(0)))})
	}
	shown := []any{doc("_id", "a", nowKey, bson.DateTime(9), "lock", doc("fence", int64(8), "tags", doc("read", bson.A{doc("id", own, "seq", int64(7), "fence", int64(8))})))}
	find(10, shown, "projection", fields, "singleBatch", true, "readConcern", doc("level", "majority"))
	find(20, shown, "projection", fields, "singleBatch", true, "readConcern", doc("level", "linearizable"))
	find(30, nil, "projection", fields, "singleBatch", true)
	find(40, shown, "projection", doc("_id", 1), "singleBatch", true)
	find(50, shown, "projection", fields)
	c := Command{
		Process: 3, Number: 1, Kind: CommandRead, Document: "a", Sent: 10, Answered: 11, Matched: true,
		Image: &Image{Now: 9, Fence: 8, Entries: []Entry{{Tag: "read", ID: hexed(own), Seq: 7, Fence: 8}}},
	}
	newest := c
	newest.Number, newest.Sent, newest.Answered, newest.Newest = 2, 20, 21, true
	nothing := Command{Process: 3, Number: 3, Kind: commandNothing, Sent: 30, Answered: 31}
	if diff := cmp.Diff([]Command{c, newest, nothing}, kept.History().Commands); diff != "" {
		t.Error(diff)
	}
}

// A claim of one document, which found it locked, says nothing of it. An acquire that finds nothing says that it isn't there.
func TestRecordedClaims(t *testing.T) {
	kept := Keep()
	r := NewRecorder(3, "db", Clock{}, kept)
	arrives := bson.A{doc("$set", doc("lock", doc("tags", doc("read", bson.A{doc("id", own, "owner", doc("$literal", "me"))}))))}
	for at, comment := range map[int64]string{10: "doclock claim", 20: "doclock acquire"} {
		r.Message(Message{Request: at, Name: "findAndModify", At: at, Command: message(t, "findAndModify", "documents", "query", doc("_id", "a"), "update", arrives, "comment", comment)})
		r.Message(Message{Request: at, Name: "findAndModify", At: at + 1, Reply: message(t, "value", nil)})
	}
	told := map[int64]string{}
	for _, c := range kept.History().Commands {
		told[c.Sent] = c.Kind
	}
	if diff := cmp.Diff(map[int64]string{10: commandNothing, 20: CommandAcquire}, told); diff != "" {
		t.Error(diff)
	}
}

// The messages of a client in another language are commands as the driver's are. A write that
// may be rolled back stays without an answer.
func TestMessages(t *testing.T) {
	kept := Keep()
	r := NewRecorder(3, "db", Clock{}, kept)
	renew := message(t, "findAndModify", "documents", "query", doc("_id", "a", "lock.tags.read", doc("$elemMatch", doc("id", own, "fence", 7.0))),
		"update", bson.A{doc("$set", doc("lock.tags.read", "$$NOW"))})
	found := doc("_id", "a")
	r.Message(Message{Request: 1, Name: "findAndModify", At: 5, Command: renew})
	r.Message(Message{Request: 2, Name: "findAndModify", At: 6, Command: renew})
	r.Message(Message{Request: 9, Name: "findAndModify", At: 7, Reply: message(t, "value", found)})
	r.Message(Message{Request: 2, Name: "findAndModify", At: 8, Reply: message(t, "value", found, "writeConcernError", doc("code", 64))})
	r.Message(Message{Request: 1, Name: "findAndModify", At: 9, Reply: message(t, "value", found)})
	c := Command{Process: 3, Kind: CommandRenew, Document: "a", Tag: "read", ID: hexed(own), Fence: 7}
	first, second := c, c
	first.Number, first.Sent, first.Answered, first.Matched = 1, 5, 9, true
	second.Number, second.Sent = 2, 6
	if diff := cmp.Diff([]Command{first, second}, kept.History().Commands); diff != "" {
		t.Error(diff)
	}
}
