package admin_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// What has expired by the server's clock goes, held, waiting, detached and
// remainders; nothing else changes.
func TestSweep(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	several(p)
	untouched := map[any]bson.Raw{}
	for _, id := range []any{1, 3, 4, 5, 6, 7, 8} {
		untouched[id] = p.stored(id)
	}
	p.Insert(idIs("late"), bson.E{Key: "n", Value: 7}, lock(99, tag("write",
		entry("wait", 1, 0, -1), entry("tok", 2, 3, -time.Hour, bson.E{Key: "key", Value: binary(secret)}, bson.E{Key: "detached", Value: true}),
		entry("rem", 4, 5, 0, bson.E{Key: "until", Value: at(0)}), entry("live", 6, 7, time.Millisecond))))
	count, err := admin.Sweep(t.Context(), p.coll, p.clocked())
	want := admin.Count{Removed: 6, Foreign: 3}
	if err != nil || count != want {
		t.Errorf("%+v, %v", count, err)
	}
	p.sends("Sweep", "find", "update")
	for id, before := range untouched {
		if after := p.stored(id); !bytes.Equal(before, after) {
			t.Errorf("%v: %v became %v", id, before, after)
		}
	}
	for id, want := range map[any][]string{"crowd": {"ann", "bob", "rem", "cid"}, 2: nil, "late": {"live"}} {
		if diff := cmp.Diff(want, names(p.inspect(id, p.clocked()).Entries)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", id, diff)
		}
	}
	if got := p.inspect("late").Fence; got != 99 {
		t.Errorf("fence %d", got)
	}
	if n := p.stored("late").Lookup("n").AsInt64(); n != 7 {
		t.Errorf("n %d", n)
	}
	if count, err := admin.Sweep(t.Context(), p.coll, p.clocked()); err != nil || count != (admin.Count{Foreign: 3}) {
		t.Errorf("again: %+v, %v", count, err)
	}
}

// An expired entry that its holder extends before the command stays.
func TestSweepLeavesAnEntryThatIsExtendedMeanwhile(t *testing.T) {
	p := newPlace(t)
	for i := range 150 { // two commands: the second one's entries are extended after they were found
		p.Insert(idIs(i), lock(9, tag("write", entry("ann", 1, 2, -time.Second))))
	}
	extend := func() {
		if _, err := p.Hand.UpdateMany(t.Context(), bson.M{}, bson.M{"$set": bson.M{"lock.tags.write.$[].expires": at(time.Minute)}}); err != nil {
			t.Error(err)
		}
	}
	count, err := admin.Sweep(t.Context(), p.whenFirst("update", extend, options.Client()), p.clocked())
	if err != nil || count.Removed != 100 {
		t.Errorf("%+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{Only: admin.Live}, p.clocked()); len(left) != 50 {
		t.Errorf("%d are left", len(left))
	}
}

// An entry that had expired by a clock that was ahead is judged anew.
func TestSweepJudgesInItsCommand(t *testing.T) {
	p := newPlace(t)
	for i := range 150 {
		p.Insert(idIs(i), lock(9, tag("write", entry("ann", 1, 2, -time.Second))))
	}
	back := func() { p.clock.Set(at(-2 * time.Second)) }
	count, err := admin.Sweep(t.Context(), p.whenFirst("update", back, options.Client()), p.clocked())
	if err != nil || count.Removed != 100 {
		t.Errorf("%+v, %v", count, err)
	}
}

// Only a document with an idle lock and nothing else is deleted.
func TestDeleteIdle(t *testing.T) {
	t.Parallel()
	const hours = int64(time.Hour / time.Millisecond)
	n0 := fixture.Epoch.UnixMilli()
	idle := n0 - 2*hours
	for name, c := range map[string]struct {
		fields []bson.E
		goes   bool
	}{
		"released":             {[]bson.E{lock(idle, tag("write"))}, true},
		"idle for just long":   {[]bson.E{lock(n0-2*hours, tag("write"))}, true},
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
		"tags and a write":     {[]bson.E{{Key: "lock", Value: bson.D{{Key: "fence", Value: idle}, {Key: "tags", Value: bson.D{}}, {Key: "done", Value: bson.A{binary(secret)}}}}}, false},
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
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.Insert(append([]bson.E{idIs("x")}, c.fields...)...)
			before := p.stored("x")
			if count, err := admin.Sweep(t.Context(), p.coll, p.clocked()); err != nil || count.Deleted != 0 || p.stored("x") == nil {
				t.Errorf("without the option: %+v, %v", count, err)
			}
			count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(2*time.Hour))
			if err != nil || (count.Deleted == 1) != c.goes || (p.stored("x") == nil) != c.goes {
				t.Errorf("%+v, %v; it goes: %v", count, err, c.goes)
			}
			if after := p.stored("x"); !c.goes && name != "expired" && !bytes.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
		})
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
	l := p.locker(relations.Exclusive(), doclock.Upsert(), drivenBy(&p.clock))
	var last int64
	for range 3 {
		for range 3 {
			lease := p.acquire(l, "name", "write")
			if lease.Fence() <= last {
				t.Fatalf("fencing token %d after %d", lease.Fence(), last)
			}
			last = lease.Fence()
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(admin.MinIdle)); err != nil || count.Deleted != 0 {
			t.Errorf("not idle yet: %+v, %v", count, err)
		}
		p.clock.Pass(admin.MinIdle + time.Second)
		if count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(admin.MinIdle)); err != nil || count.Deleted != 1 {
			t.Errorf("idle: %+v, %v", count, err)
		}
		p.clock.Set(p.clock.Now().Add(-admin.MinIdle)) // the next grant goes through a router that is behind
	}
}

// A hundred documents go with one command, also where an index might tempt
// DocumentDB to answer from it.
func TestDeleteIdleOfMany(t *testing.T) {
	p := newPlace(t)
	for i := range 150 {
		p.Insert(idIs(i), lock(1000+int64(i), tag("write", entry("a", 1, 2, -1))))
	}
	if _, err := admin.EnsureIndexes(t.Context(), p.coll, []string{"write"}); err != nil {
		t.Fatal(err)
	}
	indexOn(p, "lock.fence")
	p.sent.Take()
	count, err := admin.Sweep(t.Context(), p.coll, p.clocked(), admin.DeleteIdle(admin.MinIdle))
	if err != nil || count != (admin.Count{Removed: 150, Deleted: 150}) {
		t.Errorf("%+v, %v", count, err)
	}
	p.sends("Sweep", "find", "update", "update", "find", "delete", "delete")

	p.Insert(idIs("now"), lock(1000, tag("write", entry("a", 1, 2, -100*365*24*time.Hour)))) // by the server's own clock
	if count, err := admin.Sweep(t.Context(), p.coll, admin.DeleteIdle(admin.MinIdle)); err != nil || count != (admin.Count{Removed: 1, Deleted: 1}) {
		t.Errorf("%+v, %v", count, err)
	}
}

// A document that is locked after it was found stays.
func TestSweepDeletesNoDocumentThatIsLockedMeanwhile(t *testing.T) {
	p := newPlace(t)
	for i := range 150 { // two commands: the second one's documents are locked after they were found
		p.Insert(idIs(i), lock(1000, tag("write")))
	}
	take := func() {
		held := bson.M{"$set": bson.M{"lock.tags.write": bson.A{entry("ann", 1, 2, time.Minute)}}}
		if _, err := p.Hand.UpdateMany(t.Context(), bson.M{}, held); err != nil {
			t.Error(err)
		}
	}
	count, err := admin.Sweep(t.Context(), p.whenFirst("delete", take, options.Client()), p.clocked(), admin.DeleteIdle(admin.MinIdle))
	if err != nil || count.Deleted != 100 {
		t.Errorf("%+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{Only: admin.Live}, p.clocked()); len(left) != 50 {
		t.Errorf("%d are left", len(left))
	}
}
