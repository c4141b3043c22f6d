package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/routertest"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Break removes the one entry, with one command, and returns what it was. All
// else stays.
func TestBreakRemovesExactlyOneEntry(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ann", "bob", "old", "cid", "rem"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			crowd(p)
			entries := p.inspect("crowd", p.clocked()).Entries
			i := slices.IndexFunc(entries, func(e admin.Entry) bool { return e.ID == named(name) })
			got, err := admin.Break(t.Context(), p.coll, entries[i], p.clocked())
			if err != nil {
				t.Fatal(err)
			}
			p.sends("Break", "findAndModify")
			if diff := cmp.Diff(entries[i], got); diff != "" {
				t.Errorf("it returned (-want +got):\n%s", diff)
			}
			left := p.inspect("crowd", p.clocked())
			if diff := cmp.Diff(slices.Delete(entries, i, i+1), left.Entries); diff != "" || left.Fence != 99 {
				t.Errorf("fence %d, the others (-want +got):\n%s", left.Fence, diff)
			}
			before := p.stored("crowd")
			_, err = admin.Break(t.Context(), p.coll, got, p.clocked())
			p.want(err, admin.ErrNoEntry)
			if after := p.stored("crowd"); !bytes.Equal(before, after) {
				t.Errorf("a second Break made %v of %v", after, before)
			}
		})
	}
}

// An entry that is another one by now stays: granted, resumed, or brought back
// by a late duplicate of its acquire, it has another fencing token.
func TestBreakLeavesAnEntryThatHasChanged(t *testing.T) {
	p := newPlace(t)
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
	p.breaksNothing("foreign", held)
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

// From Break on the server refuses whatever the holder sends, and grants the
// lock to others, with a higher fencing token.
func TestBreakRefusesTheHolder(t *testing.T) {
	t.Parallel()
	set := func(n int) bson.M { return bson.M{"$set": bson.M{"n": n}} }
	for name, use := range map[string]func(context.Context, *place, *doclock.Lease) error{
		"Update":           func(ctx context.Context, _ *place, l *doclock.Lease) error { return l.Update(ctx, set(1)) },
		"UpdateAndRelease": func(ctx context.Context, _ *place, l *doclock.Lease) error { return l.UpdateAndRelease(ctx, set(1)) },
		"Delete":           func(ctx context.Context, _ *place, l *doclock.Lease) error { return l.Delete(ctx) },
		"Release":          func(ctx context.Context, _ *place, l *doclock.Lease) error { return l.Release(ctx) },
		"Renew":            func(ctx context.Context, _ *place, l *doclock.Lease) error { return l.Renew(ctx) },
		"Guard": func(ctx context.Context, p *place, l *doclock.Lease) error {
			result, err := p.Hand.UpdateOne(ctx, l.Guard(), set(1))
			if err == nil && result.MatchedCount == 0 {
				err = doclock.ErrLost
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.Insert(bson.E{Key: "n", Value: 0})
			l := p.locker(relations.Exclusive())
			lease := p.acquire(l, p.ID, "write")
			if _, err := admin.Break(t.Context(), p.coll, p.inspect(p.ID).Entries[0]); err != nil {
				t.Fatal(err)
			}
			if err := lease.Err(); err != nil { // it may still believe
				t.Errorf("the lease: %v", err)
			}
			p.want(use(t.Context(), p, lease), doclock.ErrLost)
			next := p.acquire(l, p.ID, "write")
			if next.Fence() <= lease.Fence() {
				t.Errorf("fencing token %d after %d", next.Fence(), lease.Fence())
			}
			if err := use(t.Context(), p, lease); !errors.Is(err, doclock.ErrLost) && !errors.Is(err, doclock.ErrReleased) {
				t.Errorf("beside the next holder: %v", err)
			}
			var stored struct{ N int }
			if p.Decode(&stored); stored.N != 0 {
				t.Error("a late write was applied")
			}
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A waiter whose entry is removed has lost its place.
func TestBreakOfAWaiter(t *testing.T) {
	p := newPlace(t)
	p.Insert()
	l := p.locker(relations.Semaphore(1))
	lease := p.acquire(l, p.ID, "slot")
	ticket, err := l.Enqueue(t.Context(), doclock.ID(p.ID), "slot")
	if err != nil {
		t.Fatal(err)
	}
	waiting := p.inspect(p.ID).Entries[1]
	gone, err := admin.Break(t.Context(), p.coll, waiting)
	if err != nil || gone.State != admin.Waiting {
		t.Fatalf("%v, %v", gone, err)
	}
	_, err = ticket.Confirm(t.Context())
	p.want(err, doclock.ErrLost)
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Do ends with its context.
func TestBreakEndsDo(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		p := alone(t)
		p.Insert()
		l := p.locker(relations.Exclusive(), doclock.TTL(doclock.MinTTL))
		err := l.Do(t.Context(), doclock.ID(p.ID), "write", func(ctx context.Context, lease *doclock.Lease) error {
			if _, err := admin.Break(ctx, p.coll, p.inspect(p.ID).Entries[0]); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			p.want(context.Cause(ctx), doclock.ErrLost)
			return nil
		})
		p.want(err, doclock.ErrLost)
	})
}

// The reply is lost: Break doesn't know, and a second one does.
func TestBreakOfUnknownOutcome(t *testing.T) {
	p := newPlace(t)
	p.Insert(idIs(1), lock(9, tag("write", entry("ann", 3, 4, time.Minute))))
	seen := p.inspect(1, p.clocked()).Entries[0]
	net := faultnet.New()
	coll := p.Through(options.Client().SetDialer(net).SetRetryWrites(false))
	net.Arm(faultnet.LoseReply, "findAndModify")
	_, err := admin.Break(fixture.Bounded(p), coll, seen)
	p.want(err, doclock.ErrOutcomeUnknown)
	_, err = admin.Break(fixture.Bounded(p), coll, seen)
	p.want(err, admin.ErrNoEntry)
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
		text, err := json.Marshal(p.inspect(id, p.clocked()).Entries[0])
		if err != nil {
			t.Fatal(err)
		}
		var e admin.Entry
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		if gone, err := admin.Break(t.Context(), p.coll, e); err != nil || gone.ID != named("ann") {
			t.Errorf("%d: %s: %v, %v", i, text, gone, err)
		}
	}
}

// Through a router, an entry has the values of the shard key, so that a command
// for its document goes to one shard.
func TestShardKey(t *testing.T) {
	p := newPlace(t)
	router := routertest.Start(t, mongotest.URI(t))
	router.Shard(p.Hand.Database().Name()+"."+p.Hand.Name(), "city", "at.zone")
	coll := p.Through(options.Client().ApplyURI(router.URI()))
	p.Insert(idIs(1), bson.E{Key: "city", Value: "Bern"}, bson.E{Key: "at", Value: bson.D{{Key: "zone", Value: 4}}},
		lock(9, tag("write", entry("ann", 3, 4, -time.Minute), entry("bob", 4, 5, -time.Minute))))
	key := admin.ShardKey("city", "at.zone")
	l, err := admin.Inspect(t.Context(), coll, bson.M{"_id": 1, "city": "Bern", "at.zone": 4}, key, p.clocked())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(l.Entries[0])
	if err != nil {
		t.Fatal(err)
	}
	var e admin.Entry
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Break(t.Context(), coll, e, key); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	if count, err := admin.Sweep(t.Context(), coll, key, p.clocked()); err != nil || count.Removed != 1 {
		t.Errorf("Sweep: %+v, %v", count, err)
	}
	if n := router.Refused(); n > 0 {
		t.Errorf("the router refused %d commands", n)
	}
}

// office has n documents, each with an entry of "gone" that is held, one that
// waits, and one of "here".
func office(p *place, n int) {
	p.Helper()
	owned := func(i, fence int64, owner string) bson.D {
		return bson.D{{Key: "id", Value: binary(uuid.New())}, {Key: "owner", Value: owner}, {Key: "seq", Value: i}, {Key: "fence", Value: fence},
			{Key: "since", Value: at(0)}, {Key: "expires", Value: at(time.Minute)}}
	}
	var docs []any
	for i := range n {
		waiting := owned(4, 0, "gone")
		waiting = slices.DeleteFunc(waiting, func(e bson.E) bool { return e.Key == "fence" })
		docs = append(docs, bson.D{idIs(i), {Key: "n", Value: i}, lock(9, tag("read", owned(1, 2, "gone"), owned(3, 3, "here")), tag("write", waiting))})
	}
	if _, err := p.Hand.InsertMany(context.Background(), docs); err != nil {
		p.Fatal(err)
	}
}

// All entries of the owner go, in one command for a hundred, and no others.
func TestRemove(t *testing.T) {
	p := newPlace(t)
	office(p, 120)
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: "gone"})
	count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "gone"}, p.clocked())
	if err != nil || count != (admin.Count{Removed: 240, Foreign: 1}) {
		t.Errorf("%+v, %v", count, err)
	}
	p.sends("Remove", "find", "update", "update", "update")
	left, _ := p.list(admin.Query{}, p.clocked())
	if len(left) != 120 || slices.ContainsFunc(left, func(e admin.Entry) bool { return e.Owner != "here" }) {
		t.Errorf("%d entries are left", len(left))
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "gone"}, p.clocked()); err != nil || count != (admin.Count{Foreign: 1}) {
		t.Errorf("again: %+v, %v", count, err)
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "here"}, p.clocked(), admin.Within(bson.M{"n": bson.M{"$lt": 5}})); err != nil || count.Removed != 5 {
		t.Errorf("Within: %+v, %v", count, err)
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{OwnerPrefix: "he"}, p.clocked()); err != nil || count != (admin.Count{Removed: 115, Foreign: 1}) {
		t.Errorf("a prefix: %+v, %v", count, err)
	}
}

// Each query removes what it lists, and no more. "f" is under a name that no rules
// can have, and stays.
func TestRemoveTakesAnyQuery(t *testing.T) {
	t.Parallel()
	for _, c := range queries {
		if c.name == "all" || c.name == "live" {
			continue // refused: TestBadArguments
		}
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			several(p)
			count, err := admin.Remove(t.Context(), p.coll, c.query, p.clocked())
			if err != nil || count.Foreign != int64(c.foreign) {
				t.Errorf("%+v, %v", count, err)
			}
			var stay []string
			for _, name := range []string{"a", "b", "c", "d", "f"} {
				if name == "f" || !slices.Contains(c.want, name) {
					stay = append(stay, name)
				}
			}
			left, _ := p.list(admin.Query{}, p.clocked())
			if got := sorted(names(left)); !slices.Equal(got, stay) || count.Removed != int64(5-len(stay)) {
				t.Errorf("%+v; %v are left, want %v", count, got, stay)
			}
		})
	}
}

// The owner's program is refused from then on, and everybody else works on.
func TestRemoveOfARunningProgram(t *testing.T) {
	p := newPlace(t)
	gone, here := p.locker(relations.Semaphore(3), doclock.Owner("gone")), p.locker(relations.Semaphore(3), doclock.Owner("here"))
	var lost, kept []*doclock.Lease
	for i := range 10 {
		p.Insert(idIs(i))
		lost, kept = append(lost, p.acquire(gone, i, "slot")), append(kept, p.acquire(here, i, "slot"))
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "gone"}); err != nil || count.Removed != 10 {
		t.Errorf("%+v, %v", count, err)
	}
	for i := range lost {
		p.want(lost[i].Update(t.Context(), bson.M{"$set": bson.M{"late": true}}), doclock.ErrLost)
		if err := kept[i].UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"done": true}}); err != nil {
			t.Error(err)
		}
	}
}

// One document that can't be written doesn't keep the others from being
// released. Its error comes at the end.
func TestRemoveGoesOnAfterARefusal(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	net := faultnet.New()
	coll := p.Through(options.Client().SetDialer(net))
	net.ArmRewrite(faultnet.Refuse, "update", func(bson.Raw) any {
		return bson.M{"ok": 1, "n": 0, "nModified": 0, "writeErrors": bson.A{bson.M{"index": 0, "code": 121, "errmsg": "Document failed validation"}}}
	})
	count, err := admin.Remove(t.Context(), coll, admin.Query{Owner: "gone"}, p.clocked())
	if err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) || count.Removed != 200 {
		t.Errorf("%+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{Owner: "gone"}, p.clocked()); len(left) != 100 {
		t.Errorf("%d are left", len(left))
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
	count, err := admin.Remove(fixture.Bounded(t), coll, admin.Query{Owner: "gone"}, p.clocked())
	p.want(err, doclock.ErrOutcomeUnknown)
	if count.Removed != 100 {
		t.Errorf("%+v", count)
	}
	if count, err := admin.Remove(fixture.Bounded(t), coll, admin.Query{Owner: "gone"}, p.clocked()); err != nil || count.Removed != 100 {
		t.Errorf("the rest: %+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{}, p.clocked()); len(left) != 150 {
		t.Errorf("%d are left", len(left))
	}
}

// A context that ends ends the work.
func TestRemoveCancelled(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	ctx, cancel := context.WithCancel(t.Context())
	coll := p.whenFirst("update", cancel, options.Client())
	count, err := admin.Remove(ctx, coll, admin.Query{Owner: "gone"}, p.clocked())
	p.want(err, context.Canceled)
	if count.Removed != 100 {
		t.Errorf("%+v", count)
	}
}
