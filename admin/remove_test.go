package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Break removes the one entry, with one command, and returns what it was. All
// else stays. A second Break finds nothing.
func TestBreakRemovesExactlyOneEntry(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	for left := p.inspect("crowd", p.clocked()).Entries; len(left) > 0; left = left[1:] {
		got, err := admin.Break(t.Context(), p.coll, left[0], p.clocked())
		p.sends("Break", "findAndModify")
		if diff := cmp.Diff(left[0], got); diff != "" || err != nil {
			t.Errorf("%v; it returned (-want +got):\n%s", err, diff)
		}
		lock := p.inspect("crowd", p.clocked())
		if diff := cmp.Diff(left[1:], lock.Entries); diff != "" || lock.Fence != 99 {
			t.Errorf("fence %d, the others (-want +got):\n%s", lock.Fence, diff)
		}
		p.breaksNothing("crowd", got)
		p.sent.Take()
	}
}

// An entry that is another one by now stays: granted, resumed, or brought back
// by a late duplicate of its acquire, it has another fencing token.
func TestBreakLeavesAnEntryThatHasChanged(t *testing.T) {
	t.Run("here", func(t *testing.T) { leavesWhatHasChanged(newPlace(t)) })
	t.Run("on a replica set", func(t *testing.T) { // where a break reads what it has not found
		mongotest.Own(t, locktest.ReplicaSet())
		leavesWhatHasChanged(newPlace(t))
	})
}

func leavesWhatHasChanged(p *place) {
	held, waiting := admin.Entry{Tag: "write", ID: named("ann"), Fence: 4}, admin.Entry{Tag: "write", ID: named("ann")}
	for name, c := range map[string]struct {
		seen admin.Entry
		now  bson.E
	}{
		"granted":      {waiting, tag("write", entry("ann", 3, 5, time.Minute))},
		"resumed":      {held, tag("write", entry("ann", 3, 5, time.Minute))},
		"waits again":  {held, tag("write", entry("ann", 3, 0, time.Minute))},
		"another tag":  {held, tag("read", entry("ann", 3, 4, time.Minute))},
		"another id":   {held, tag("write", entry("bob", 3, 4, time.Minute))},
		"no longer":    {held, tag("write")},
		"no such tags": {held, bson.E{Key: "write"}},
	} {
		p.Insert(idIs(name), lock(9, c.now))
		p.breaksNothing(name, c.seen)
	}
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: bson.D{{Key: "fence", Value: "x"}, {Key: "tags", Value: bson.D{tag("write", entry("ann", 3, 4, time.Minute))}}}})
	_, err := admin.Break(p.Context(), p.coll, admin.Entry{DocumentID: bsonValue(p, "foreign"), Tag: held.Tag, ID: held.ID, Fence: held.Fence})
	p.want(err, doclock.ErrForeignLock)
	p.breaksNothing("no such document", held)
	p.coll = p.coll.Database().Collection("nowhere")
	p.breaksNothing("no collection", held)
}

func (p *place) breaksNothing(document string, seen admin.Entry) {
	p.Helper()
	before := p.stored(document)
	seen.DocumentID = bsonValue(p, document)
	if _, err := admin.Break(p.Context(), p.coll, seen); !errors.Is(err, admin.ErrNoEntry) {
		p.Errorf("%s: %v", document, err)
	}
	if after := p.stored(document); !bytes.Equal(before, after) {
		p.Errorf("%s: %v became %v", document, before, after)
	}
}

// An entry that went through JSON is the same entry, whatever the type of the
// document's _id is.
func TestBreakOfAnEntryFromJSON(t *testing.T) {
	p := newPlace(t)
	for i, id := range []any{
		int32(7), int64(8), int64(1) << 50, 9.5, "text", bson.NewObjectID(), bson.NewDateTimeFromTime(at(0)), true, binary(named("id")),
		bson.D{{Key: "a", Value: 1}, {Key: "b", Value: bson.D{{Key: "c", Value: "d"}}}}, bson.Binary{Subtype: 0, Data: []byte{1, 2}}, bson.MinKey{},
	} {
		p.Insert(idIs(id), lock(9, tag("write", entry("ann", 3, 4, time.Minute))))
		e := p.byJSON(p.inspect(id, p.clocked()).Entries[0])
		if gone, err := admin.Break(t.Context(), p.coll, e); err != nil || gone.ID != named("ann") {
			t.Errorf("%d: %v, %v", i, gone, err)
		}
	}
}

// Through a router, an entry has the values of the shard key, so that a command
// for its document goes to one shard.
func TestShardKey(t *testing.T) {
	mongotest.Own(t, locktest.Sharded())
	p := newPlace(t)
	p.Shard(bson.D{{Key: "city", Value: 1}, {Key: "at.zone", Value: 1}})
	p.Insert(idIs(1), bson.E{Key: "city", Value: "Bern"}, bson.E{Key: "at", Value: bson.D{{Key: "zone", Value: 4}}},
		lock(9, tag("write", entry("ann", 3, 4, -time.Minute), entry("bob", 4, 5, -time.Minute))))
	key := admin.ShardKey("city", "at.zone")
	l, err := admin.Inspect(t.Context(), p.coll, bson.M{"_id": 1, "city": "Bern", "at.zone": 4}, key, p.clocked())
	must(t, err)
	page, err := p.coll.FindOne(t.Context(), bson.M{"city": "Bern"}, options.FindOne().SetProjection(admin.Projection(key))).Raw()
	must(t, err)
	if seen, err := admin.LockOf(page, key); err != nil || !slices.Equal(seen.Entries[0].ShardKey, l.Entries[0].ShardKey) {
		t.Errorf("%v; the page has %v, want %v", err, seen, l)
	}
	if _, err := admin.Break(t.Context(), p.coll, p.byJSON(l.Entries[0]), key); err != nil {
		t.Error(err)
	}
	if count, err := admin.Sweep(t.Context(), p.coll, key, p.clocked()); err != nil || count.Removed != 1 {
		t.Errorf("Sweep: %+v, %v", count, err)
	}
}

// byJSON is an entry as another process reads it.
func (p *place) byJSON(e admin.Entry) (read admin.Entry) {
	p.Helper()
	text, err := json.Marshal(e)
	must(p, err)
	must(p, json.Unmarshal(text, &read))
	return read
}

// office has n documents, each with an entry "of gone" that is held, one that
// waits, and one "of here".
func office(p *place, n int) {
	p.Helper()
	waiting := entry("waits", 4, 0, time.Minute, owner("of gone"))
	var docs []any
	for i := range n {
		docs = append(docs, bson.D{idIs(i), {Key: "n", Value: i}, lock(9,
			tag("read", entry("gone", 1, 2, time.Minute), entry("here", 3, 3, time.Minute)), tag("write", waiting))})
	}
	must(p, errOf(p.Hand.InsertMany(context.Background(), docs)))
}

// All entries of the owner go, in one command for a hundred, and no others.
func TestRemove(t *testing.T) {
	p := newPlace(t)
	office(p, 120)
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: "gone"})
	for _, removed := range []int64{240, 0} {
		count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "of gone"}, p.clocked())
		if err != nil || count != (admin.Count{Removed: removed, Foreign: 1}) {
			t.Errorf("%+v, %v", count, err)
		}
	}
	p.sends("Remove", "find", "update", "update", "update", "find")
	left, _ := p.list(admin.Query{}, p.clocked())
	if len(left) != 120 || slices.ContainsFunc(left, func(e admin.Entry) bool { return e.Owner != "of here" }) {
		t.Errorf("%d entries are left", len(left))
	}
}

// Documents that can't be written don't keep the others from being released. The
// first one's error comes at the end.
func TestRemoveGoesOnAfterARefusal(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	net := faultnet.New()
	coll := p.Through(options.Client().SetDialer(net))
	for _, why := range []string{"the first", "the second"} {
		net.ArmRewrite(faultnet.Refuse, "update", func(bson.Raw) any {
			return bson.M{"ok": 1, "n": 0, "nModified": 0, "writeErrors": bson.A{bson.M{"index": 0, "code": 121, "errmsg": why}}}
		})
	}
	count, err := admin.Remove(t.Context(), coll, admin.Query{Owner: "of gone"}, p.clocked())
	if err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "the first") || count.Removed != 100 {
		t.Errorf("%+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{Owner: "of gone"}, p.clocked()); len(left) != 200 {
		t.Errorf("%d are left", len(left))
	}
}

// Documents that somebody's transaction has locked, and entries under which one is open, keep no
// others from being released, swept or deleted.
func TestRemoveGoesOnPastTransactions(t *testing.T) {
	for name, c := range map[string]struct {
		expires time.Duration
		call    func(p *place) (admin.Count, error)
		stay    int // documents
	}{
		"Remove": {time.Minute, func(p *place) (admin.Count, error) {
			return admin.Remove(p.Context(), p.coll, admin.Query{Owner: "of gone"}, p.clocked())
		}, 300},
		"Sweep": {-time.Minute, func(p *place) (admin.Count, error) { return admin.Sweep(p.Context(), p.coll, p.clocked()) }, 300},
		"DeleteIdle": {-time.Minute, func(p *place) (admin.Count, error) {
			return admin.Sweep(p.Context(), p.coll, admin.DeleteIdle(time.Hour), p.clocked())
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			mongotest.Virtual(t, func(t *testing.T) {
				p := alone(t)
				for i := range 300 {
					own := entry("gone", 1, 2, c.expires)
					if i < 2 {
						own = append(own, bson.E{Key: "fenced", Value: bson.D{{Key: "id", Value: binary(named(fmt.Sprint("mark ", i)))}, {Key: "slots", Value: int32(1)}}})
					}
					p.Insert(idIs(i), lock(9, tag("write", own)))
				}
				session, err := p.Hand.Database().Client().StartSession()
				must(t, err)
				defer session.EndSession(p.Context())
				fence := doclock.ID(bson.D{{Key: "f", Value: binary(named("mark 0"))}, {Key: "s", Value: int64(0)}})
				fences := p.Hand.Database().Collection("doclock.fences")
				must(t, errOf(fences.InsertOne(p.Context(), fence)))
				must(t, session.StartTransaction())
				inside := mongo.NewSessionContext(p.Context(), session)
				must(t, errOf(fences.UpdateOne(inside, fence, bson.M{"$set": bson.M{"n": 1}})))
				must(t, errOf(p.Hand.UpdateOne(inside, doclock.ID(150), bson.M{"$inc": bson.M{"lock.fence": 1}})))
				count, err := c.call(p)
				if err == nil || !strings.Contains(err.Error(), "document ") || count.Removed < 200 { // some by the command that was late
					t.Errorf("%+v, %v", count, err)
				}
				var stay, left []int
				for i := range 300 {
					doc := p.stored(i)
					if doc != nil {
						stay = append(stay, i)
					}
					if bytes.Contains(doc, []byte("of gone")) {
						left = append(left, i)
					}
				}
				if !slices.Equal(left, []int{0, 150}) || len(stay) != c.stay {
					t.Errorf("the entries of %v are left, and %d documents", left, len(stay))
				}
				must(t, session.AbortTransaction(p.Context()))
			}, locktest.ReplicaSet())
		})
	}
}

// An answer that is lost ends the work, with what is known to be done. A further
// call does the rest.
func TestRemoveOfUnknownOutcome(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	net := faultnet.New()
	lose := func() { net.Arm(faultnet.LoseReply, "update") }
	coll := p.whenFirst("update", lose, options.Client().SetDialer(net).SetRetryWrites(false))
	count, err := admin.Remove(fixture.Bounded(t), coll, admin.Query{Owner: "of gone"}, p.clocked())
	p.want(err, doclock.ErrOutcomeUnknown)
	if count.Removed != 100 {
		t.Errorf("%+v", count)
	}
	if count, err := admin.Remove(fixture.Bounded(t), coll, admin.Query{Owner: "of gone"}, p.clocked()); err != nil || count.Removed != 100 {
		t.Errorf("the rest: %+v, %v", count, err)
	}
}

// What has expired by the server's clock goes, held, waiting, detached and
// remainders; nothing else changes.
func TestSweep(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	several(p)
	p.Insert(idIs("late"), bson.E{Key: "n", Value: 7}, lock(99, tag("write",
		entry("wait", 1, 0, -1), entry("tok", 2, 3, -time.Hour, bson.E{Key: "key", Value: binary(secret)}, bson.E{Key: "detached", Value: true}),
		entry("rem", 4, 5, 0, bson.E{Key: "until", Value: at(0)}), entry("live", 6, 7, time.Millisecond))))
	before := map[any]bson.Raw{}
	for _, id := range []any{1, 3, 4, 5, 6, 7, 8} {
		before[id] = p.stored(id)
	}
	for _, removed := range []int64{6, 0} {
		if count, err := admin.Sweep(t.Context(), p.coll, p.clocked()); err != nil || count != (admin.Count{Removed: removed, Foreign: 3}) {
			t.Errorf("%+v, %v", count, err)
		}
	}
	p.sends("Sweep", "find", "update", "find")
	for id, before := range before {
		if after := p.stored(id); !bytes.Equal(before, after) {
			t.Errorf("%v: %v became %v", id, before, after)
		}
	}
	for id, want := range map[any][]string{"crowd": {"ann", "bob", "rem", "cid"}, 2: nil, "late": {"live"}} {
		if diff := cmp.Diff(want, names(p.inspect(id, p.clocked()).Entries)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", id, diff)
		}
	}
	if late := p.stored("late"); late.Lookup("lock", "fence").AsInt64() != 99 || late.Lookup("n").AsInt64() != 7 {
		t.Errorf("%v", late)
	}
}

// What has changed between the look and the command stays: an entry that was
// extended, one that had expired by a clock that was ahead, and a document that is
// locked. There are two commands, and the change comes between them.
func TestSweepJudgesInItsCommand(t *testing.T) {
	t.Parallel()
	set := func(p *place, field string, value any) {
		must(p, errOf(p.Hand.UpdateMany(p.Context(), bson.M{}, bson.M{"$set": bson.M{field: value}})))
	}
	extend := func(p *place) { set(p, "lock.tags.write.$[].expires", at(time.Minute)) }
	turn := func(p *place) { p.clock.Set(at(-2 * time.Second)) }
	lockAll := func(p *place) { set(p, "lock.tags.write", bson.A{entry("bob", 1, 2, time.Minute)}) }
	for name, c := range map[string]struct {
		after     string
		meanwhile func(p *place)
		want      admin.Count
	}{
		"extended":               {"update", extend, admin.Count{Removed: 100, Deleted: 100}},
		"a clock that was ahead": {"update", turn, admin.Count{Removed: 100, Deleted: 100}},
		"locked":                 {"delete", lockAll, admin.Count{Removed: 150, Deleted: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			for i := range 150 {
				p.Insert(idIs(i), lock(1000, tag("write", entry("ann", 1, 2, -time.Second))))
			}
			coll := p.whenFirst(c.after, func() { c.meanwhile(p) }, options.Client())
			count, err := admin.Sweep(t.Context(), coll, p.clocked(), admin.DeleteIdle(admin.MinIdle))
			if err != nil || count != c.want {
				t.Errorf("%+v, %v", count, err)
			}
			if left, _ := p.list(admin.Query{}, p.clocked()); len(left) != 50 {
				t.Errorf("%d are left", len(left))
			}
		})
	}
}

// Only a document with an idle lock and nothing else is deleted, also where an index might tempt DocumentDB to answer
// from it, and by the server's own clock. TestSweepJudgesInItsCommand has more documents than one command deletes.
func TestDeleteIdle(t *testing.T) {
	p := newPlace(t)
	const hours = int64(time.Hour / time.Millisecond)
	n0 := fixture.Epoch.UnixMilli()
	idle := n0 - 2*hours
	cases := map[string]struct {
		fields []bson.E
		goes   bool
	}{
		"released":             {[]bson.E{lock(idle, tag("write"))}, true},
		"not quite":            {[]bson.E{lock(n0-2*hours+1, tag("write"))}, false},
		"never had tags":       {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}}}}, true},
		"tags null":            {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "tags"}}}}, true},
		"fence a double":       {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: float64(idle)}}}}, true},
		"expired":              {[]bson.E{lock(idle, tag("write", entry("a", 1, 2, 0)))}, true},
		"held":                 {[]bson.E{lock(idle, tag("write", entry("a", 1, 2, time.Millisecond)), tag("read"))}, false},
		"waiting":              {[]bson.E{lock(idle, tag("write", entry("a", 1, 0, time.Second)))}, false},
		"held, unknown tag":    {[]bson.E{lock(idle, tag("a.b", entry("a", 1, 2, time.Second)))}, false},
		"a field":              {[]bson.E{{Key: "n"}, lock(idle)}, false},
		"a field in capitals":  {[]bson.E{{Key: "Lock", Value: 1}, lock(idle)}, false},
		"a field of the lock":  {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "Tags", Value: bson.D{}}}}}, false},
		"ended with a write":   {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "done", Value: bson.A{binary(secret)}}}}}, false},
		"had transactions":     {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "v", Value: int32(2)}, {Key: "tags", Value: bson.D{}}}}}, true},
		"a newer version":      {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "v", Value: int32(3)}}}}, false},
		"with a break":         {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "broken", Value: idle}}}}, false},
		"just upserted":        {[]bson.E{{Key: "lock", Value: bson.D{}}}, false},
		"no fence":             {[]bson.E{{Key: "lock", Value: bson.D{{Key: "tags", Value: bson.D{}}}}}, false},
		"fence null":           {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence"}}}}, false},
		"fence 0":              {[]bson.E{lock(0)}, false},
		"lock null":            {[]bson.E{{Key: "lock"}}, false},
		"no lock":              {nil, false},
		"foreign":              {[]bson.E{{Key: "lock", Value: "x"}}, false},
		"foreign fence":        {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: "1"}}}}, false},
		"foreign array":        {[]bson.E{{Key: "lock", Value: bson.A{}}}, false},
		"fence beyond all":     {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: 1e300}}}}, false},
		"ahead of the clock":   {[]bson.E{lock(n0 + 5)}, false},
		"a foreign tag's type": {[]bson.E{lock(idle, bson.E{Key: "write", Value: 7})}, false},
	}
	before, goes := map[string]bson.Raw{}, int64(0)
	for name, c := range cases {
		p.Insert(append([]bson.E{idIs(name)}, c.fields...)...)
		before[name] = p.stored(name)
		if c.goes {
			goes++
		}
	}
	must(t, errOf(admin.EnsureIndexes(t.Context(), p.coll, []string{"write"})))
	indexOn(p, "lock.fence")
	count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(2*time.Hour))
	if err != nil || count.Deleted != goes {
		t.Errorf("%+v, %v, want %d deleted", count, err, goes)
	}
	for name, c := range cases {
		if after := p.stored(name); c.goes && after != nil || !c.goes && !bytes.Equal(before[name], after) {
			t.Errorf("%s: %v became %v", name, before[name], after)
		}
	}
	p.Insert(idIs("now"), lock(1000, tag("write", entry("a", 1, 2, -100*365*24*time.Hour))))
	count, err = admin.Sweep(t.Context(), p.coll, admin.DeleteIdle(admin.MinIdle), admin.Within(doclock.ID("now")))
	if err != nil || count != (admin.Count{Removed: 1, Deleted: 1}) {
		t.Errorf("%+v, %v", count, err)
	}
}

// The values of the shard key may stand beside the lock, if they are not nested.
func TestDeleteIdleOfAShardedCollection(t *testing.T) {
	p := newPlace(t)
	idle := fixture.Epoch.UnixMilli() - admin.MinIdle.Milliseconds()
	p.Insert(idIs(1), bson.E{Key: "city", Value: "Bern"}, lock(idle))
	p.Insert(idIs(2), bson.E{Key: "city", Value: "Bern"}, bson.E{Key: "at", Value: bson.D{{Key: "zone", Value: 1}}}, lock(idle))
	p.Insert(idIs(3), bson.E{Key: "at", Value: bson.D{{Key: "zone", Value: 1}, {Key: "of", Value: "somebody"}}}, lock(idle))
	p.Insert(idIs(4), bson.E{Key: "town", Value: "Bern"}, lock(idle))
	p.Insert(idIs(5), lock(idle))
	count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(admin.MinIdle), admin.ShardKey("city", "at.zone", "_id"))
	if err != nil || count.Deleted != 2 || p.stored(1) != nil || p.stored(5) != nil {
		t.Errorf("%+v, %v", count, err)
	}
}

// The fencing tokens of a document that comes and goes go on increasing.
func TestTokensIncreaseOverADeletion(t *testing.T) {
	p := newPlace(t)
	clocked := engine.Option(func(c *engine.Config) error { c.Now = p.clock.Now; return nil })
	locks, err := writelock.New(p.Hand, doclock.Upsert(), clocked)
	must(t, err)
	sweep := func(deleted int64) {
		if count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(admin.MinIdle)); err != nil || count.Deleted != deleted {
			t.Errorf("%+v, %v, want %d deleted", count, err, deleted)
		}
	}
	var last int64
	for range 3 {
		for range 3 {
			lease, err := locks.TryAcquire(t.Context(), doclock.ID("name"))
			if err != nil || lease.Fence() <= last {
				t.Fatalf("%v; a fencing token after %d: %v", err, last, lease)
			}
			last = lease.Fence()
			must(t, lease.Release(t.Context()))
		}
		sweep(0) // not idle yet
		p.clock.Pass(admin.MinIdle + time.Second)
		sweep(1)
		p.clock.Set(p.clock.Now().Add(-admin.MinIdle)) // the next grant goes through a router that is behind
	}
}

// A removal that was answered is no failure, whatever becomes of the call's context then.
func TestBreakThatWasAnswered(t *testing.T) {
	p := newPlace(t)
	p.Insert(idIs(1), lock(9, tag("write", entry("ann", 3, 4, time.Minute))))
	seen := p.inspect(1, p.clocked()).Entries[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	coll := p.whenFirst("findAndModify", cancel, options.Client())
	if gone, err := admin.Break(ctx, coll, seen, p.clocked()); err != nil || gone.ID != named("ann") {
		t.Errorf("Break = %v, %v; the document is %v", gone, err, p.stored(1))
	}
}

// mark is that of an entry under which there may be transactions.
func mark() bson.E {
	return bson.E{Key: "fenced", Value: bson.D{{Key: "id", Value: binary(named("mark"))}, {Key: "slots", Value: int32(1)}}}
}

// A sweep leaves an entry with a mark that was extended in the meantime, or that had expired by a clock that was ahead,
// doesn't settle its transactions, and goes on with the others.
func TestSweepLeavesAMarkThatIsLive(t *testing.T) {
	for name, meanwhile := range map[string]func(p *place){
		"extended": func(p *place) { // as by a Touch of its token
			p.Change(bson.M{"$set": bson.M{"lock.tags.write.$[].expires": at(time.Minute)}})
		},
		"a clock that was ahead": func(p *place) { p.clock.Set(at(-2 * time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			mongotest.Own(t, locktest.ReplicaSet())
			p := newPlace(t)
			p.Insert(idIs(2), lock(9, tag("write", entry("bob", 3, 4, -time.Minute))))
			p.Insert(idIs(1), lock(9, tag("write", entry("ann", 3, 4, -time.Second, mark())))) // which changes
			coll := p.whenFirst("find", func() { meanwhile(p) }, options.Client())
			if count, err := admin.Sweep(fixture.Bounded(t), coll, p.clocked()); err != nil || count != (admin.Count{Removed: 1}) {
				t.Errorf("%+v, %v", count, err)
			}
			if n, err := p.Hand.Database().Collection("doclock.fences").CountDocuments(t.Context(), bson.M{}); err != nil || n != 0 {
				t.Errorf("%d fences are settled, %v", n, err)
			}
		})
	}
}

// A document that can't be written doesn't keep the others from being released, also if their
// entries have a mark, which is removed by a command of its own.
func TestSweepGoesOnAfterARefusalOfAMark(t *testing.T) {
	p := newPlace(t)
	p.Insert(idIs(1), lock(9, tag("write", entry("ann", 3, 4, -time.Minute, mark()))))
	p.Insert(idIs(2), lock(9, tag("write", entry("bob", 3, 4, -time.Minute, mark()))))
	net := faultnet.New()
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 121, "codeName": "DocumentValidationFailure", "errmsg": "the validator"}
	})
	coll := p.Through(options.Client().SetDialer(net))
	count, err := admin.Sweep(fixture.Bounded(t), coll, p.clocked())
	if err == nil || !strings.Contains(err.Error(), "the validator") || count.Removed != 1 {
		t.Errorf("%+v, %v", count, err)
	}
}

// The entry stands in a lock of a newer version, or in one with a damaged tag.
func TestBreakInALockThatIsNotOurs(t *testing.T) {
	p := newPlace(t)
	ann := tag("write", entry("ann", 3, 4, time.Minute))
	for name, lock := range map[string]bson.D{
		"newer":   {{Key: "v", Value: int32(3)}, {Key: "fence", Value: int64(9)}, {Key: "tags", Value: bson.D{ann}}},
		"damaged": {{Key: "fence", Value: int64(9)}, {Key: "tags", Value: bson.D{ann, {Key: "read", Value: 5}}}},
	} {
		p.Insert(idIs(name), bson.E{Key: "lock", Value: lock})
		_, err := admin.Break(p.Context(), p.coll, admin.Entry{DocumentID: bsonValue(p, name), Tag: "write", ID: named("ann"), Fence: 4})
		p.want(err, doclock.ErrForeignLock)
	}
}

// A dump of a replica set, restored to a server without members, has entries with a mark.
func TestSweepAndBreakOfAMarkOnAServerWithoutMembers(t *testing.T) {
	mongotest.Own(t)
	p := newPlace(t)
	p.Insert(idIs(1), lock(9, tag("write", entry("ann", 3, 4, -time.Minute, mark()))))
	p.Insert(idIs(2), lock(9, tag("write", entry("bob", 3, 4, time.Minute, mark()))))
	if count, err := admin.Sweep(fixture.Bounded(t), p.coll, p.clocked()); err != nil || count != (admin.Count{Removed: 1}) {
		t.Errorf("Sweep: %+v, %v", count, err)
	}
	if _, err := admin.Break(fixture.Bounded(t), p.coll, p.inspect(2, p.clocked()).Entries[0], p.clocked()); err != nil {
		t.Errorf("Break: %v", err)
	}
}
