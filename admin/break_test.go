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
	for name, was := range map[string]bson.D{"granted": entry("ann", 3, 0, time.Minute), "again": entry("ann", 3, 4, time.Minute)} {
		p.Insert(idIs(name), lock(9, tag("write", was)))
		seen := p.inspect(name, p.clocked()).Entries[0]
		p.Change(bson.M{"$set": bson.M{"lock.tags.write.0.fence": int64(5)}})
		before := p.stored(name)
		_, err := admin.Break(t.Context(), p.coll, seen)
		p.want(err, admin.ErrNoEntry)
		p.Change(bson.M{"$unset": bson.M{"lock.tags.write.0.fence": 1}})
		if name == "again" { // a waiting entry is not the held one either
			_, err = admin.Break(t.Context(), p.coll, seen)
			p.want(err, admin.ErrNoEntry)
		}
		p.Change(bson.M{"$set": bson.M{"lock.tags.write.0.fence": int64(5)}})
		if after := p.stored(name); !bytes.Equal(before, after) {
			t.Errorf("%s: %v became %v", name, before, after)
		}
	}
	p.Insert(idIs("moved"), lock(9, tag("write", entry("ann", 3, 4, time.Minute))))
	seen := p.inspect("moved", p.clocked()).Entries[0]
	seen.Tag = "read"
	_, err := admin.Break(t.Context(), p.coll, seen)
	p.want(err, admin.ErrNoEntry)
	p.Change(bson.M{"$set": bson.M{"lock.fence": "the gardener's"}})
	before := p.stored("moved")
	seen.Tag = "write"
	_, err = admin.Break(t.Context(), p.coll, seen)
	p.want(err, admin.ErrNoEntry)
	if after := p.stored("moved"); !bytes.Equal(before, after) {
		t.Errorf("a foreign lock was changed: %v became %v", before, after)
	}
	seen.DocumentID = bsonValue(t, "no such document")
	_, err = admin.Break(t.Context(), p.coll, seen)
	p.want(err, admin.ErrNoEntry)
	nowhere := p.coll.Database().Collection("nowhere")
	_, err = admin.Break(t.Context(), nowhere, seen)
	p.want(err, admin.ErrNoEntry)
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

// A renewal that is under way beside Break doesn't bring the entry back, and
// the holder learns its loss from the next one.
func TestBreakBesideRenewals(t *testing.T) {
	p := newPlace(t)
	p.Insert()
	l := p.locker(relations.Exclusive())
	for range 20 {
		lease := p.acquire(l, p.ID, "write")
		seen := p.inspect(p.ID).Entries[0]
		ended := make(chan error, 1)
		go func() {
			ctx := fixture.Bounded(p)
			for {
				if err := lease.Renew(ctx); err != nil {
					ended <- err
					return
				}
			}
		}()
		gone, err := admin.Break(fixture.Bounded(p), p.coll, seen)
		if err != nil || gone.ID != lease.ID() {
			t.Errorf("%v, %v", gone, err)
		}
		p.want(<-ended, doclock.ErrLost)
		if left := p.inspect(p.ID).Entries; len(left) != 0 {
			t.Errorf("the entry is back: %v", left)
		}
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
