package admin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

var secret = named("secret")

// crowd is a document with an entry of each state.
func crowd(p *place) {
	p.Insert(idIs("crowd"), bson.E{Key: "text", Value: "hello"}, lock(99,
		tag("read",
			entry("ann", 1, 1, 5*time.Second),
			entry("bob", 3, 4, 5*time.Second, bson.E{Key: "key", Value: binary(secret)}, bson.E{Key: "detached", Value: true}),
			entry("old", 2, 2, -time.Second)),
		tag("write",
			entry("cid", 7, 0, 2*time.Second),
			entry("rem", 5, 6, 9*time.Second, bson.E{Key: "until", Value: at(9 * time.Second)})),
		tag("audit"),
	))
}

// Inspect shows every entry in the order of arrival, with its state and its
// times by the server's clock, in one majority read that changes nothing.
func TestInspectShowsTheLock(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	before := p.stored("crowd")
	got, err := admin.Inspect(t.Context(), p.coll, doclock.ID("crowd"), p.clocked())
	must(t, err)
	command := p.sent.All()[0]
	if level, _ := command.Lookup("readConcern", "level").StringValueOK(); level != "majority" {
		t.Errorf("the read is %v", command)
	}
	p.sends("Inspect", "find")
	if after := p.stored("crowd"); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	want := func(name, tag string, state admin.State, seq, fence int64, left time.Duration) admin.Entry {
		return admin.Entry{
			DocumentID: got.DocumentID, Tag: tag, ID: named(name), Owner: "of " + name, State: state, Fence: fence, Seq: seq,
			Since: at(-time.Minute), Age: time.Minute, Expires: at(left), Remaining: left,
		}
	}
	bob := want("bob", "read", admin.Detached, 3, 4, 5*time.Second)
	bob.HasToken = true
	rem := want("rem", "write", admin.Remainder, 5, 6, 9*time.Second)
	rem.Until = at(9 * time.Second)
	ann, old := want("ann", "read", admin.Held, 1, 1, 5*time.Second), want("old", "read", admin.Held, 2, 2, -time.Second)
	cid := want("cid", "write", admin.Waiting, 7, 0, 2*time.Second)
	all := &admin.Lock{DocumentID: got.DocumentID, Now: at(0), Fence: 99, Entries: []admin.Entry{ann, old, bob, rem, cid}}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if id, old := got.DocumentID.StringValue(), got.Entries[1]; id != "crowd" || !old.Expired() || got.Entries[0].Expired() {
		t.Errorf("document %s, %v", id, got.Entries)
	}
}

// A lease whose TTL ends later than its Until, or that has written, is no
// remainder. A fence of 0 is that of a waiting entry.
func TestStates(t *testing.T) {
	p := newPlace(t)
	until := bson.E{Key: "until", Value: at(time.Second)}
	for name, c := range map[string]struct {
		entry bson.D
		want  admin.State
	}{
		"held":            {entry("a", 1, 2, time.Second), admin.Held},
		"waiting":         {entry("a", 1, 0, time.Second), admin.Waiting},
		"waiting, by 0":   {entry("a", 1, 0, time.Second, bson.E{Key: "fence", Value: int64(0)}), admin.Waiting},
		"detached":        {entry("a", 1, 2, time.Second, bson.E{Key: "detached", Value: true}), admin.Detached},
		"resumed":         {entry("a", 1, 2, time.Second, bson.E{Key: "key", Value: binary(secret)}), admin.Held},
		"remainder":       {entry("a", 1, 2, time.Second, until), admin.Remainder},
		"renewed":         {entry("a", 1, 2, 2*time.Second, until), admin.Held},
		"has written":     {entry("a", 1, 2, time.Second, until, bson.E{Key: "n", Value: int64(1)}), admin.Held},
		"with a token":    {entry("a", 1, 2, time.Second, until, bson.E{Key: "key", Value: binary(secret)}), admin.Held},
		"detached, until": {entry("a", 1, 2, time.Second, until, bson.E{Key: "detached", Value: true}), admin.Detached},
	} {
		p.Insert(idIs(name), lock(9, tag("write", c.entry)))
		if got := p.inspect(name, p.clocked()).Entries[0].State; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The rules tell which entries keep a waiting entry back, and which ones keep an
// acquire back under each tag. Expired entries keep nobody back, unknown tags
// everybody.
func TestInspectSaysWhoIsInWhoseWay(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	got := p.inspect("crowd", p.clocked(), admin.Rules(relations.WritePreferring()))
	want := map[string][]uuid.UUID{
		"read":  {named("cid"), named("rem")},
		"write": {named("ann"), named("bob"), named("cid"), named("rem")},
	}
	if diff := cmp.Diff(want, got.InTheWay); diff != "" {
		t.Errorf("in the way of an arrival (-want +got):\n%s", diff)
	}
	for _, e := range got.Entries {
		var want []uuid.UUID
		if e.ID == named("cid") {
			want = []uuid.UUID{named("ann"), named("bob"), named("rem")}
		}
		if diff := cmp.Diff(want, e.WaitsFor); diff != "" {
			t.Errorf("%v waits for (-want +got):\n%s", e, diff)
		}
	}
	got = p.inspect("crowd", p.clocked(), admin.Rules(relations.Semaphore(2)))
	if len(got.InTheWay["slot"]) != 4 {
		t.Errorf("unknown tags keep an arrival back: %v", got.InTheWay)
	}
	for _, e := range got.Entries {
		if e.WaitsFor != nil {
			t.Errorf("rules without its tag say what %v waits for", e)
		}
	}
	p.Insert(idIs("free"))
	if got := p.inspect("free", admin.Rules(relations.Fair())); len(got.InTheWay) != 2 || len(got.InTheWay["read"]) != 0 || got.InTheWay["read"] == nil {
		t.Errorf("nothing is in the way, but: %v", got.InTheWay)
	}
}

func TestInspectOfNothing(t *testing.T) {
	p := newPlace(t)
	_, err := admin.Inspect(t.Context(), p.coll, doclock.ID("none")) // and there is no collection
	p.want(err, doclock.ErrNotFound)
	for name, fields := range map[string][]bson.E{"absent": nil, "null": {{Key: "lock"}}, "empty": {{Key: "lock", Value: bson.D{}}}} {
		p.Insert(append([]bson.E{idIs(name)}, fields...)...)
		if l := p.inspect(name); len(l.Entries) != 0 || l.Fence != 0 || l.Now.IsZero() {
			t.Errorf("%s: %+v", name, l)
		}
	}
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: "the gardener's"})
	if l := p.inspect("foreign", admin.Field("other")); len(l.Entries) != 0 {
		t.Errorf("another field: %+v", l)
	}
}

// several documents: with entries of each kind, without a lock, and foreign.
func several(p *place) {
	owned := func(name, by string, seq int64, age, expires time.Duration) bson.D {
		return entry(name, seq, seq, expires, owner(by), bson.E{Key: "since", Value: at(-age)})
	}
	p.Insert(idIs(1), lock(9, tag("read", owned("a", "web", 2, time.Hour, time.Minute), owned("b", "db", 1, time.Second, time.Minute))))
	p.Insert(idIs(2), lock(9, tag("write", owned("c", "web", 1, time.Minute, -time.Minute)), tag("read", owned("d", "Web", 2, time.Minute, 0))))
	p.Insert(idIs(3), bson.E{Key: "text", Value: "never locked"})
	p.Insert(idIs(4), lock(9, tag("read"), bson.E{Key: "write"}))
	p.Insert(idIs(5), bson.E{Key: "lock", Value: "the gardener's"})
	p.Insert(idIs(6), bson.E{Key: "lock", Value: bson.D{{Key: "fence", Value: "x"}, {Key: "tags", Value: bson.D{tag("read", owned("e", "web", 1, 0, 0))}}}})
	p.Insert(idIs(7), lock(9, bson.E{Key: "read", Value: 7}))
	p.Insert(idIs(8), lock(9, tag("odd.name", owned("f", "web", 1, 2*time.Hour, time.Millisecond))))
}

var queries = []struct {
	name    string
	query   admin.Query
	want    []string
	foreign int
}{
	{"all", admin.Query{}, []string{"a", "b", "c", "d", "f"}, 3},
	{"an owner's, letter by letter", admin.Query{Owner: "web"}, []string{"a", "c", "f"}, 3},
	{"several owners', by a prefix", admin.Query{OwnerPrefix: "we"}, []string{"a", "c", "f"}, 3},
	{"several owners', letter by letter", admin.Query{OwnerPrefix: "We"}, []string{"d"}, 3},
	{"a prefix that is no pattern", admin.Query{OwnerPrefix: "w.b"}, nil, 3},
	{"nobody's", admin.Query{Owner: "$$ROOT"}, nil, 3},
	{"a tag", admin.Query{Tags: []string{"read"}}, []string{"a", "b", "d"}, 1},
	{"two tags", admin.Query{Tags: []string{"read", "write"}}, []string{"a", "b", "c", "d"}, 1},
	{"an unused tag", admin.Query{Tags: []string{"audit"}}, nil, 0},
	{"live", admin.Query{Only: admin.Live}, []string{"a", "b", "f"}, 3},
	{"expired, just now too", admin.Query{Only: admin.Expired}, []string{"c", "d"}, 3},
	{"old", admin.Query{OlderThan: time.Minute}, []string{"a", "c", "d", "f"}, 3},
	{"very old", admin.Query{OlderThan: time.Minute + time.Millisecond}, []string{"a", "f"}, 3},
	{"all of it", admin.Query{Owner: "web", Tags: []string{"write"}, OlderThan: time.Second, Only: admin.Expired}, []string{"c"}, 0},
}

// Also under a collation that takes two owners for one, with the server's own
// clock, and whatever indexes there are: DocumentDB refuses $$NOW in a filter that
// it answers from an index.
func TestQueries(t *testing.T) {
	p, folded := newPlace(t), alone(t)
	several(p)
	check := func(p *place) {
		for _, c := range queries {
			p.sent.Take()
			got, foreign := p.list(c.query, p.clocked())
			p.sends(c.name, "find")
			if diff := cmp.Diff(c.want, sorted(names(got))); diff != "" || foreign != c.foreign {
				t.Errorf("%s: %d foreign fields, want %d; entries (-want +got):\n%s", c.name, foreign, c.foreign, diff)
			}
		}
	}
	check(p)
	must(t, errOf(admin.EnsureIndexes(t.Context(), p.coll, []string{"read", "write"})))
	for _, path := range []string{"lock.fence", "lock.tags.read.since", "lock.tags.read.expires", "text"} {
		indexOn(p, path)
	}
	check(p)
	for _, c := range queries {
		p.list(c.query)
	}
	if got, _ := p.list(admin.Query{Only: admin.Expired}, admin.Within(bson.M{"_id": bson.M{"$lt": 3}})); len(got) != 0 { // 2030 is to come
		t.Errorf("expired by the server's clock: %v", got)
	}

	collation := options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 1})
	if err := folded.Hand.Database().CreateCollection(t.Context(), folded.Hand.Name(), collation); err != nil {
		t.Skip("the server knows no collation:", err)
	}
	several(folded)
	check(folded)
}

// Inspect, Entries and LockOf show the same. The entries of one document come
// together, in the order of their arrival, and a foreign field is an error with its
// document, after which the iteration goes on. LockOf reads all that one query found.
func TestAllReadersShowTheSame(t *testing.T) {
	p := newPlace(t)
	several(p)
	crowd(p)
	rules := admin.Rules(relations.WritePreferring())
	byDocument := map[string][]admin.Entry{}
	for e, err := range admin.Entries(t.Context(), p.coll, admin.Query{}, p.clocked(), rules) {
		if err != nil {
			p.want(err, doclock.ErrForeignLock)
		}
		byDocument[e.DocumentID.String()] = append(byDocument[e.DocumentID.String()], e)
	}
	p.sent.Take()
	fields := append(admin.Projection(p.clocked()), bson.E{Key: "text", Value: 1})
	found, err := p.coll.Find(t.Context(), bson.M{}, options.Find().SetProjection(fields))
	must(t, err)
	n := 0
	for ; found.Next(t.Context()); n++ {
		id := found.Current.Lookup("_id")
		want, refused := admin.Inspect(t.Context(), p.Hand, bson.M{"_id": id}, p.clocked(), rules)
		got, err := admin.LockOf(found.Current, rules)
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != strings.Replace(fmt.Sprint(refused), "doclock: inspect a lock: ", "", 1) {
			t.Errorf("%v: %v; %v (-Inspect +LockOf):\n%s", id, refused, err, diff)
		}
		entries := []admin.Entry{{DocumentID: id}} // foreign
		if want != nil {
			entries = want.Entries
		}
		if diff := cmp.Diff(entries, byDocument[id.String()], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v (-Inspect +Entries):\n%s", id, diff)
		}
		if text := found.Current.Lookup("text"); id.Equal(bsonValue(t, int32(3))) && text.StringValue() != "never locked" {
			t.Errorf("the text is %v", text)
		}
	}
	if n != 9 {
		t.Errorf("%d documents", n)
	}
	p.sends("a page", "find")
	_, err = admin.LockOf(p.stored("crowd")) // without the fields
	p.want(err, doclock.ErrInvalidArgument)
	if got, _ := p.list(admin.Query{}, p.clocked(), admin.Within(bson.M{"_id": bson.M{"$gt": 1}})); !slices.Equal(sorted(names(got)), []string{"c", "d", "f"}) {
		t.Errorf("Within: %v", got)
	}
	if got, _ := p.list(admin.Query{}, admin.Field("other")); len(got) != 0 {
		t.Errorf("another field: %v", got)
	}
}

// A loop that is left closes the server's cursor, also if its context has ended.
// Neither Entries nor Remove reads on before it is done with what it has: so memory
// doesn't grow with the collection.
func TestEntriesCloseTheCursor(t *testing.T) {
	mongotest.Real(t, "cursors")
	p := newPlace(t)
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: "x"})
	for range admin.Entries(t.Context(), p.coll, admin.Query{}) {
		break // at an error
	}
	var many []bson.D
	for i := range 501 { // more than one answer's
		many = append(many, bson.D{idIs(i), lock(9, tag("write", entry("ann", 1, 2, time.Hour)))})
	}
	must(t, errOf(p.Hand.InsertMany(t.Context(), many)))
	p.sent.Take()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range admin.Entries(ctx, p.coll, admin.Query{Tags: []string{"write"}}, p.clocked()) {
		must(t, err)
		cancel()
		break
	}
	p.sends("Entries", "find", "killCursors")
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Tags: []string{"write"}}, p.clocked()); err != nil || count.Removed != 501 {
		t.Errorf("%+v, %v", count, err)
	}
	p.sends("Remove", "find", "update", "update", "update", "update", "update", "getMore", "update")
}

// Nothing makes an index but EnsureIndexes, and what it makes deletes nothing.
func TestIndexes(t *testing.T) {
	mongotest.Real(t, "a list of its indexes")
	p := newPlace(t)
	several(p)
	p.list(admin.Query{Tags: []string{"read"}})
	must(t, errOf(admin.Sweep(t.Context(), p.coll, p.clocked())))
	p.sent.Take()
	all, err := p.Hand.Indexes().ListSpecifications(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d indexes, %v", len(all), err)
	}
	for range 2 { // the second time they are there
		made, err := admin.EnsureIndexes(t.Context(), p.coll, []string{"read", "write"})
		if err != nil || len(made) != 2 {
			t.Fatal(made, err)
		}
		p.sends("EnsureIndexes", "createIndexes")
	}
	if all, err = p.Hand.Indexes().ListSpecifications(t.Context()); err != nil || len(all) != 3 {
		t.Fatalf("%d indexes, %v", len(all), err)
	}
	for i, path := range []string{"_id", "lock.tags.read.id", "lock.tags.write.id"} {
		if s := all[i]; s.ExpireAfterSeconds != nil || s.KeysDocument.Index(0).Key() != path || (i > 0) != (s.Sparse != nil && *s.Sparse) {
			t.Errorf("an index %+v, want a plain one on %s", s, path)
		}
	}
	made, err := admin.EnsureIndexes(t.Context(), p.coll, []string{"b", "a", "b"}, admin.Field("lease")) // one index for b
	if err != nil || !slices.Equal(made, []string{"lease.tags.b.id_1", "lease.tags.a.id_1"}) {
		t.Errorf("another field: %v, %v", made, err)
	}
}

// A query of tags is answered from the index of EnsureIndexes.
func TestTheIndexHelps(t *testing.T) {
	mongotest.Real(t, "plans of its finds")
	p := newPlace(t)
	var docs []any
	for i := range 2000 {
		docs = append(docs, bson.D{idIs(i), {Key: "text", Value: fmt.Sprint("a document without a lock ", i)}})
	}
	must(t, errOf(p.Hand.InsertMany(t.Context(), docs)))
	p.Insert(idIs("locked"), lock(9, tag("write", entry("a", 1, 2, time.Minute))))
	must(t, errOf(admin.EnsureIndexes(t.Context(), p.coll, []string{"write"})))
	p.sent.Take()
	if got, _ := p.list(admin.Query{Tags: []string{"write"}, Only: admin.Live}, p.clocked()); len(got) != 1 {
		t.Fatal(got)
	}
	find := p.sent.All()[0]
	var plan bson.Raw
	explained := bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: find.Lookup("find")}, {Key: "filter", Value: find.Lookup("filter")}}}}
	err := p.Hand.Database().RunCommand(fixture.Bounded(p), explained).Decode(&plan)
	if err != nil || !strings.Contains(plan.String(), `"lock.tags.write.id_1"`) {
		t.Errorf("%v; the plan does not name the index: %v", err, plan)
	}
}

// An index is made with majority, whatever the collection's own write concern is: with
// w: 0 the driver returns no error, though the server refuses.
func TestIndexesAreMadeWithMajority(t *testing.T) {
	p := newPlace(t)
	p.Insert(idIs(1))
	p.sent.Take()
	weak := p.coll.Clone(options.Collection().SetWriteConcern(writeconcern.W1()))
	must(t, errOf(admin.EnsureIndexes(t.Context(), weak, []string{"write"})))
	for _, command := range p.sent.All() {
		if w, _ := command.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
			t.Errorf("it sent %v", command)
		}
	}
}
