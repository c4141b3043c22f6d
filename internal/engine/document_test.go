package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// everything is a document with a value of every type that BSON has.
func everything() bson.D {
	return bson.D{
		{Key: "double", Value: 1.5},
		{Key: "string", Value: "$lock.tags"},
		{Key: "document", Value: bson.D{{Key: "z", Value: 1}, {Key: "a", Value: bson.D{}}, {Key: "lock", Value: bson.A{"mine"}}}},
		{Key: "array", Value: bson.A{int32(1), "two", bson.D{{Key: "lock", Value: 3}}, bson.A{}}},
		{Key: "binary", Value: bson.Binary{Subtype: 0, Data: []byte{1, 2, 3}}},
		{Key: "uuid", Value: binaryID(ann)},
		{Key: "undefined", Value: bson.Undefined{}},
		{Key: "objectid", Value: bson.ObjectID{1, 2, 3}},
		{Key: "boolean", Value: true},
		{Key: "date", Value: bson.NewDateTimeFromTime(epoch)},
		{Key: "null", Value: nil},
		{Key: "regex", Value: bson.Regex{Pattern: "^a", Options: "i"}},
		{Key: "dbpointer", Value: bson.DBPointer{DB: "x.y", Pointer: bson.ObjectID{1}}},
		{Key: "code", Value: bson.JavaScript("f()")},
		{Key: "symbol", Value: bson.Symbol("s")},
		{Key: "scope", Value: bson.CodeWithScope{Code: "f()", Scope: bson.D{{Key: "x", Value: 1}}}},
		{Key: "int", Value: int32(7)},
		{Key: "timestamp", Value: bson.Timestamp{T: 5, I: 6}},
		{Key: "long", Value: int64(1) << 60},
		{Key: "decimal", Value: decimal("1.50")},
		{Key: "min", Value: bson.MinKey{}},
		{Key: "max", Value: bson.MaxKey{}},
		{Key: "long name " + strings.Repeat("x", 300), Value: "ünï\x00cödé"},
		{Key: nowKey, Value: bson.A{bson.D{{Key: "a", Value: 1}}, 2}},
		{Key: docKey, Value: "mine"},
	}
}

// All commands run on such a document, and it stays the same byte for byte.
func TestUsersFieldsStayByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, everything()...)
	p := w.peer(relations.Fair())
	a := p.arrive(Request{Tag: "read", ID: ann, Document: true}, Granted)
	var back bson.Raw
	if err := p.Decode(a, &back); err != nil {
		t.Fatal(err)
	}
	if users := p.users(); !bytes.Equal(back, users) {
		t.Errorf("as of the grant: %v\nin the document:   %v", back, users)
	}
	r := p.Grant(p.arrive(Request{Tag: "read", ID: ann, Document: true}, Granted), Request{Tag: "read", ID: ann})
	p.try(bob, "write", Conflict)
	b := p.acquire(bob, "write", Waiting)
	p.confirm(b, Waiting)
	p.renew(r, Renewed)
	p.untouched("write", func() { p.write(r, bson.M{"$unset": bson.M{"none": 1}}, 1, Applied) })
	p.untouched("write", func() { p.write(r, bson.A{bson.M{"$unset": "none"}}, 2, Applied) })
	p.read(r)
	p.release(r, Released)
	img := p.ask(b, Request{Tag: "write", ID: bob, Document: true}, Granted)
	b = p.Grant(img, Request{Tag: "write", ID: bob})
	if err := p.Decode(img, &back); err != nil {
		t.Fatal(err)
	}
	if users := p.users(); !bytes.Equal(back, users) {
		t.Errorf("as of the confirm: %v\nin the document:   %v", back, users)
	}
	p.untouched("finish", func() { p.finish(b, bson.A{bson.M{"$unset": bson.A{"none", "nil"}}}, Applied) })
	b = p.acquire(cid, "write", Granted)
	p.untouched("finish", func() { p.finish(b, bson.M{"$unset": bson.M{"none": 1}}, Applied) })
}

func TestIDsOfEveryType(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	p := w.peer(relations.Exclusive())
	for i, id := range []any{
		bson.NewObjectID(), "garden", "", int32(7), int64(1) << 40, 2.5, binaryID(eve), bson.Binary{Subtype: 0, Data: []byte{1}},
		bson.D{{Key: "b", Value: 1}, {Key: "a", Value: bson.D{{Key: "c", Value: "x"}}}}, bson.D{}, true, nil,
		bson.NewDateTimeFromTime(epoch), bson.Timestamp{T: 1}, decimal("1.5"), bson.MinKey{}, bson.MaxKey{},
	} {
		w.run(fmt.Sprintf("%T %d", id, i), func(t *testing.T) {
			w.Insert(bson.E{Key: "_id", Value: id}, hello())
			if f := w.filter(); f.Pin == nil {
				t.Error("the filter is not pinned")
			}
			g := p.acquire(ann, "write", Granted)
			one, err := bson.Marshal(bson.D{{Key: "_id", Value: id}})
			if err != nil || !g.Pin.ID().Equal(bson.Raw(one).Lookup("_id")) {
				t.Errorf("the grant is of document %v", g.Pin.ID())
			}
			p.renew(g, Renewed)
			p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
			p.release(g, Released)
			p.finish(p.acquire(bob, "write", Granted), bson.A{bson.M{"$set": bson.M{"y": 1}}}, Applied)
			w.is(stored{fence: n0 + 1, tags: rows{"write": {}}, done: []uuid.UUID{bob}})
		})
	}
}

func TestFieldOfAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "lock", Value: "a padlock"})
	p := w.peer(relations.Fair(), func(c *Config) { c.Field = "Sperre_é" })
	g := p.acquire(ann, "read", Granted)
	b := p.acquire(bob, "write", Waiting)
	p.renew(g, Renewed)
	p.write(g, bson.M{"$set": bson.M{"lock": "a chain"}}, 1, Applied)
	w.fieldIs("Sperre_é", stored{fence: n0 + 1, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: held, n: 1}},
		"write": {{id: bob, seq: n0 + 1, expires: waits}},
	}}.document())
	p.write(g, bson.A{bson.M{"$set": bson.M{"lock": "a rope"}}}, 2, Applied)
	p.finish(g, bson.M{"$set": bson.M{"x": 1}}, Applied)
	b = p.confirm(b, Granted)
	p.finish(b, bson.A{bson.M{"$set": bson.M{"x": 1}}}, Applied)
	w.fieldIs("Sperre_é", stored{fence: n0 + 2, tags: rows{"write": {}}, done: []uuid.UUID{ann, bob}}.document())
	w.fieldIs("lock", "a rope")
	p.release(p.acquire(cid, "read", Granted), Released)
}

func TestThousandEntries(t *testing.T) {
	t.Parallel()
	entries := bson.A{}
	for i := range 1000 {
		r := row{id: named(fmt.Sprint("reader ", i)), seq: n0 + int64(i), fence: n0 + int64(i), expires: held}
		if i%2 == 1 {
			r.expires = second
		}
		entries = append(entries, r.document())
	}
	w := newWorld(t, bson.E{Key: DefaultField, Value: bson.M{"fence": n0 + 999, "tags": bson.M{"read": entries}}}, hello())
	p := w.peer(relations.Fair())
	b := p.acquire(bob, "write", Waiting)
	w.at(2 * second) // every second entry has expired
	img := p.arrive(Request{Tag: "read", ID: ann}, Waiting)
	if n := len(img.Lock.Entries); n != 502 {
		t.Errorf("%d entries are left, want 502", n)
	}
	own, _ := img.Lock.Find("write", bob)
	if blocking, free := p.InTheWay(img, "write", &own); len(blocking) != 500 || free != held-2*second {
		t.Errorf("%d in the way, for %v", len(blocking), free)
	}
	g := Grant{Pin: b.Pin, Entry: Entry{Tag: "read", ID: named("reader 500"), Fence: n0 + 500}}
	p.renew(g, Renewed)
	p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
	p.finish(g, bson.A{bson.M{"$set": bson.M{"y": 1}}}, Applied)
	p.confirm(b, Waiting)
	if n := len(p.read(b).Lock.Entries); n != 501 {
		t.Errorf("%d entries are left, want 501", n)
	}
}

func TestTTLsOfTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.peer(relations.Fair(), func(c *Config) {
		c.TagTTL = map[string]time.Duration{"read": time.Minute}
		c.Tolerance, c.WaitTTL = 0, 0
	})
	g := p.acquire(ann, "read", Granted)
	p.acquire(bob, "write", Waiting)
	p.acquire(cid, "read", Waiting)
	w.is(stored{fence: n0 + 2, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: time.Minute}, {id: cid, seq: n0 + 2, expires: DefaultWaitTTL}},
		"write": {{id: bob, seq: n0 + 1, expires: DefaultWaitTTL}},
	}})
	w.at(second)
	p.renew(g, Renewed)
	p.confirm(g, Granted)
	if own, _ := p.read(g).Lock.Find("read", ann); !own.Expires.Equal(w.clock.Now().Add(time.Minute)) {
		t.Errorf("expires %v", own.Expires)
	}
}
