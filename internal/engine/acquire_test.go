package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const second = time.Second

func hello() bson.E { return bson.E{Key: "text", Value: "hello"} }

func TestAcquireFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	g := w.peer(relations.Exclusive()).acquire(ann, "write", Granted)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}}}})
	want := Grant{Pin: Pin{{Key: "_id", Value: g.Pin.ID()}}, TTL: ttl, Alone: n0, Entry: Entry{Tag: "write", ID: ann, Seq: n0, Fence: n0, Owner: "test", Since: epoch, Expires: epoch.Add(held)}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("the grant (-want +got):\n%s", diff)
	}
	if id := g.Pin.ID().AsInt64(); id != 1 {
		t.Errorf("the grant is of document %d", id)
	}
}

func TestAcquireRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.ReadPreferring())
	p.acquire(ann, "write", Granted)
	before := w.Stored()
	w.at(second)
	for _, tag := range []string{"read", "write"} {
		for _, try := range []bool{false, true} {
			img := p.arrive(Request{Tag: tag, ID: bob, Try: try}, Conflict)
			entries, free := p.InTheWay(img, tag, nil)
			if len(entries) != 1 || entries[0].ID != ann || entries[0].Owner != "test" || free != held-second {
				t.Errorf("in the way of %q: %+v, for %v", tag, entries, free)
			}
		}
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("a refused acquire made %v of %v", after, before)
	}
}

func upserting(c *Config) { c.Upsert = true }

// The filter's equalities become fields, as in any upsert.
func TestUpsertMakesTheDocument(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.ID, w.key = "job-7", bson.D{{Key: "city", Value: "Bern"}}
	p := w.peer(relations.Exclusive(), upserting)
	got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: ann, Document: true})
	if got.Outcome != Granted || err != nil {
		t.Fatal(got.Outcome, err)
	}
	p.asStored("acquire", got.Image)
	w.is(stored{fence: n0, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}}}})
	if doc := w.decoded(); doc["_id"] != "job-7" || doc["city"] != "Bern" || len(doc) != 3 {
		t.Errorf("the document is %v", doc)
	}
	if n := w.sent.Count(); n != 3 {
		t.Errorf("%d commands to find nothing, make the document, and acquire", n)
	}

	// The next acquire is one command.
	p.acquire(bob, "write", Conflict)
	p.acquire(ann, "write", Granted)
}

// Many clients acquire in a document that doesn't exist: exactly one of them is
// the first.
func TestUpsertRace(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	p := w.peer(relations.Exclusive(), upserting)
	for w.ID = range int32(10) {
		var all sync.WaitGroup
		granted := make(chan uuid.UUID, 12)
		for range cap(granted) {
			all.Go(func() {
				id := uuid.New()
				got, err := p.Engine.Acquire(t.Context(), p.filter(), Request{Tag: "write", ID: id})
				if err != nil || got.Outcome != Granted && got.Outcome != Conflict || len(got.Image.Lock.Entries) != 1 {
					t.Error(got.Outcome, err)
				}
				if got.Outcome == Granted {
					granted <- id
				}
			})
		}
		all.Wait()
		if n := len(granted); n != 1 {
			t.Fatalf("document %d: %d were granted", w.ID, n)
		}
		w.is(stored{fence: n0, tags: rows{"write": {{id: <-granted, seq: n0, fence: n0, expires: held}}}})
	}
}

// If the document can't be inserted, the caller gets the server's error, and
// the insert is not repeated for ever.
func TestUpsertRefused(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.Insert(bson.E{Key: "kind", Value: "garden"})
	index := mongo.IndexModel{Keys: bson.D{{Key: "mail", Value: 1}}, Options: options.Index().SetUnique(true)}
	if _, err := w.Hand.Indexes().CreateOne(t.Context(), index); err != nil {
		t.Fatal(err)
	}
	p := w.peer(relations.Exclusive(), upserting)
	f, err := p.ParseFilter(bson.M{"_id": "new"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: ann})
	if f := AsFailure(err); !mongo.IsDuplicateKeyError(err) || !f.Nothing || f.Passes {
		t.Errorf("%v, %v", got.Outcome, err)
	}
	w.hasNoLock()
}

// A document is made if the filter matches it then, and else none is. One that is there
// and doesn't match is left as it is.
func TestUpsertMakesWhatTheFilterMatches(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.Insert(bson.E{Key: "kind", Value: "garden"})
	there := w.ID
	p := w.peer(relations.Exclusive(), upserting)
	for i, c := range []struct {
		made   bool
		filter bson.D
	}{
		{true, bson.D{{Key: "kind", Value: "other"}, {Key: "deep.down", Value: nil}}},
		{true, bson.D{{Key: "off", Value: bson.M{"$ne": true}}, {Key: "state", Value: bson.M{"$nin": bson.A{"a", "b"}}}}},
		{true, bson.D{{Key: "gone", Value: bson.M{"$exists": false}}, {Key: "lock.tags.write.0", Value: bson.M{"$exists": false}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$gt": 5}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$ne": nil}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$nin": bson.A{1, nil}}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$exists": true}}}},
		{false, bson.D{{Key: "n", Value: bson.M{"$exists": 1}}}},
		{false, bson.D{{Key: "n", Value: bson.Regex{Pattern: "^a"}}}},
		{false, bson.D{{Key: "kind", Value: bson.M{"b": 1}}, {Key: "kind.b", Value: bson.M{"$ne": 1}}}},
		{false, bson.D{{Key: "lock", Value: bson.M{"$exists": false}}}},
		{false, bson.D{{Key: "$or", Value: bson.A{bson.M{"kind": "a"}, bson.M{"kind": "b"}}}}},
	} {
		for _, id := range []any{there, fmt.Sprint("new ", i)} {
			f, err := p.ParseFilter(append(bson.D{{Key: "_id", Value: id}}, c.filter...))
			if err != nil {
				t.Fatal(err)
			}
			matched, _ := w.Hand.CountDocuments(t.Context(), f.doc)
			got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: uuid.New()})
			made, _ := w.Hand.CountDocuments(t.Context(), bson.M{"_id": id})
			want := NotFound
			switch {
			case id != there && c.made:
				want = Granted
			case id == there && matched == 1:
				want = got.Outcome // granted, or a conflict with one before
			}
			if err != nil || got.Outcome != want || (made == 1) != (id == there || c.made) {
				t.Errorf("%v: %v, %v, and there are %d documents; want %v", f, got.Outcome, err, made, want)
			}
		}
	}
}

// removed sends one clean-up and checks what it found.
func (p *peer) removed(pin Pin, ids []uuid.UUID, want ...uuid.UUID) {
	p.Helper()
	p.once("remove", func() {
		found, err := p.Remove(p.Context(), Filter{Pin: pin}, "write", ids)
		if err != nil {
			p.Fatal(err)
		}
		for _, id := range want {
			if !slices.Contains(found, id) {
				p.Errorf("%s was not found", id[:3])
			}
		}
		if len(found) != len(want) {
			p.Errorf("found %d, want %d", len(found), len(want))
		}
	})
}

// The command removes the tag's entries with these ids, held or waiting, and
// nothing else.
func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.acquire(bob, "write", Waiting)
	p.acquire(cid, "write", Waiting)
	p.acquire(dan, "read", Waiting)
	p.untouched("remove", func() { p.removed(g.Pin, []uuid.UUID{ann, cid, dan, eve}, ann, cid) })
	w.is(stored{fence: n0 + 3, tags: rows{
		"write": {{id: bob, seq: n0 + 1, expires: waits}},
		"read":  {{id: dan, seq: n0 + 3, expires: waits}},
	}})
	p.removed(g.Pin, []uuid.UUID{ann, cid, eve})
	w.Delete()
	p.removed(g.Pin, []uuid.UUID{bob})
}

// After an acquire of unknown outcome the document is unknown; only the id is known. Without a pin,
// one document that has the entry is cleaned up, or released.
func TestRemoveAndReleaseWithoutAPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	w.Insert(bson.E{Key: "_id", Value: int32(2)})
	p.acquire(ann, "write", Granted)
	p.removed(nil, []uuid.UUID{bob, ann}, ann)
	w.is(stored{fence: n0, tags: rows{"write": {}}})
	p.acquire(ann, "write", Granted)
	p.release(Grant{Entry: Entry{Tag: "write", ID: ann, Fence: n0 + 1}}, Released)
	w.is(stored{fence: n0 + 1, tags: rows{"write": {}}})
	if n, err := w.Hand.CountDocuments(t.Context(), bson.M{"lock": bson.M{"$exists": true}}); n != 1 || err != nil {
		t.Errorf("%d documents have a lock, %v", n, err)
	}
}

// The clean-up of an acquire spares the lock that was detached, and finds what is beside it.
func TestRule23CleanUpSparesEntriesWithAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Rules{"write": {"write": {Kind: relations.Cooperative, Allow: 2}}})
	a := p.acquire(ann, "write", Granted)
	k := p.detach(a, Detached)
	p.acquire(cid, "write", Granted)
	p.removed(a.Pin, []uuid.UUID{ann, cid}, cid)
	p.resume(k, bob)
	p.removed(a.Pin, []uuid.UUID{bob})
	p.touch(k)
}

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
