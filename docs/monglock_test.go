package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// lockRelationships are those of monglock's README.
const lockRelationships = `{
	"read": {"cooperative": ["write"]},
	"write": {"cooperative": ["write"], "assertive": ["read"]}
}`

func openLikeMonglock(coll *mongo.Collection) (*multilock.Locker, error) {
	var rules relations.Rules
	if err := json.Unmarshal([]byte(lockRelationships), &rules); err != nil {
		return nil, err
	}
	return multilock.New(coll, rules,
		doclock.TagTTL("read", 2*time.Second), doclock.TagTTL("write", 20*time.Second)) // locktimeouts
}

// writeUnder is what a caller of monglock's writeLock wrote a loop for.
func writeUnder(ctx context.Context, coll *mongo.Collection) error {
	locks, err := writelock.New(coll, doclock.TTL(10*time.Second)) // locktimeout
	if err != nil {
		return err
	}
	return locks.Do(ctx, bson.M{"_id": 1}, func(ctx context.Context, lease *doclock.Lease) error {
		return lease.Update(ctx, bson.M{"$set": bson.M{"text": "new"}})
	})
}

// locktimeout is monglock's, in all programs.
const locktimeout = 10 * time.Second

// underBoth holds doclock's lock, and inside it monglock's writeLock.
func underBoth(ctx context.Context, locks *writelock.Locker, coll *mongo.Collection, id any,
	fn func(context.Context, *doclock.Lease) error) error {
	return locks.Do(ctx, doclock.ID(id), func(ctx context.Context, lease *doclock.Lease) error {
		since, err := acquireMonglock(ctx, coll, id)
		if err != nil {
			return err
		}
		working, cancel := context.WithDeadline(ctx, since.Add(locktimeout))
		defer cancel()
		err = fn(working, lease)
		_, released := coll.UpdateOne(context.WithoutCancel(ctx),
			bson.M{"_id": id, "lock.timestamp": since.UnixMilli()}, bson.M{"$set": bson.M{"lock.active": false}})
		return errors.Join(err, released)
	})
}

// acquireMonglock sends the command of monglock's writeLock until it matches.
func acquireMonglock(ctx context.Context, coll *mongo.Collection, id any) (since time.Time, err error) {
	for {
		now := time.Now().Truncate(time.Millisecond)
		r, err := coll.UpdateOne(ctx, bson.M{"_id": id, "$or": bson.A{
			bson.M{"lock": bson.M{"$exists": false}},
			bson.M{"lock.active": false},
			bson.M{"lock.timestamp": bson.M{"$lte": now.Add(-locktimeout).UnixMilli()}},
		}}, bson.M{"$set": bson.M{"lock": bson.M{"active": true, "timestamp": now.UnixMilli()}}})
		if err != nil || r.MatchedCount == 1 {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The README's rules are read as they are. A reader may come in beside a reader, and a
// writer waits for both.
func TestMonglockRules(t *testing.T) {
	coll, err := locktest.New().Collection("orders", bson.M{"_id": 1})
	must(t, err)
	locks, err := openLikeMonglock(coll)
	must(t, err)
	for range 2 {
		_, err = locks.TryAcquire(t.Context(), doclock.ID(1), "read")
		must(t, err)
	}
	waiting, err := locks.Enqueue(t.Context(), doclock.ID(1), "write")
	must(t, err)
	if _, err := waiting.Confirm(t.Context()); !errors.Is(err, doclock.ErrConflict) {
		t.Error("a writer beside readers: ", err)
	}
	if _, err := locks.TryAcquire(t.Context(), doclock.ID(1), "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Error("a reader beside a waiting writer: ", err)
	}
}

func TestMonglockWriteUnder(t *testing.T) {
	coll, err := locktest.New().Collection("orders", bson.M{"_id": 1})
	must(t, err)
	must(t, writeUnder(t.Context(), coll))
}

// After the stop and the $unset of docs/from-monglock.md no document has anything of
// monglock's, and what doclock wrote is untouched.
func TestMonglockIsRemoved(t *testing.T) {
	entry := bson.M{"timestamp": time.Now().UnixMilli(), "id": bson.NewObjectID()}
	coll, err := locktest.New().Collection("orders",
		bson.M{"_id": "held", "lock": bson.M{"active": true, "timestamp": time.Now().UnixMilli()}},
		bson.M{"_id": "free", "lock": bson.M{"active": false, "timestamp": 1}},
		bson.M{"_id": "several", "lock": bson.M{"read": bson.A{entry}, "write": bson.A{}}},
		bson.M{"_id": "a tag named fence", "lock": bson.M{"fence": bson.A{entry}}},
		bson.M{"_id": "never locked"}, bson.M{"_id": "new"})
	must(t, err)
	locks, err := writelock.New(coll)
	must(t, err)
	lease, err := locks.TryAcquire(t.Context(), doclock.ID("new"))
	must(t, err)

	m := regexp.MustCompile(`(?s)compares this -->\n` + "```js\n" + `db\.orders\.updateMany\((.*?)\)\n`).FindStringSubmatch(source(t, "docs/from-monglock.md"))
	var line struct{ Args []bson.Raw }
	must(t, bson.UnmarshalExtJSON([]byte(`{"args": [`+strings.TrimSpace(m[1])+`]}`), false, &line))
	_, err = coll.UpdateMany(t.Context(), line.Args[0], line.Args[1])
	must(t, err)

	must(t, lease.Update(t.Context(), bson.M{"$set": bson.M{"text": "new"}}))
	for _, id := range []string{"held", "free", "several", "a tag named fence", "never locked"} {
		raw, err := coll.FindOne(t.Context(), doclock.ID(id)).Raw()
		must(t, err)
		if _, err := raw.LookupErr("lock"); err == nil {
			t.Errorf("%s still has a lock: %v", id, raw)
		}
		_, err = locks.TryAcquire(t.Context(), doclock.ID(id))
		must(t, err)
	}
}

// In one field the two don't see each other: doclock is granted beside monglock, and
// monglock's grant erases doclock's lock. The guarded write is refused then.
func TestMonglockInTheSameField(t *testing.T) {
	coll, err := locktest.New().Collection("orders", bson.M{"_id": 1, "lock": bson.M{"active": true, "timestamp": 1}})
	must(t, err)
	locks, err := writelock.New(coll)
	must(t, err)
	lease, err := locks.TryAcquire(t.Context(), doclock.ID(1))
	must(t, err)
	_, err = acquireMonglock(t.Context(), coll, 1)
	must(t, err)
	if err := lease.Update(t.Context(), bson.M{"$set": bson.M{"text": "late"}}); !errors.Is(err, doclock.ErrLost) {
		t.Error(err)
	}
}

// A single entry that has expired lets a writer of monglock's multiLock in beside a reader
// whose entry has not: the path reaches any element.
func TestMonglockForgetsTheLivingReader(t *testing.T) {
	now := time.Now().UnixMilli()
	coll, err := locktest.New().Collection("orders", bson.M{"_id": 1, "lock": bson.M{"read": bson.A{
		bson.M{"timestamp": now - 60_000, "id": bson.NewObjectID()}, // of a process that died
		bson.M{"timestamp": now, "id": bson.NewObjectID()},
	}}})
	must(t, err)
	assertive := bson.M{"_id": 1, "$or": bson.A{
		bson.M{"lock": bson.M{"$exists": false}},
		bson.M{"$and": bson.A{bson.M{"$or": bson.A{
			bson.M{"lock.read.timestamp": bson.M{"$lte": now - 2000}},
			bson.M{"lock.read": bson.M{"$size": 0}},
			bson.M{"lock.read": bson.M{"$exists": false}},
		}}}},
	}}
	if err := coll.FindOne(t.Context(), assertive).Err(); err != nil {
		t.Error("the page says that it is let in: ", err)
	}
}

// Programs of monglock's and programs under both locks exclude each other.
func TestUnderBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coll, err := locktest.New().Collection("orders", bson.M{"_id": 1})
		must(t, err)
		var inside, most, runs int
		var mu sync.Mutex
		add := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			inside += n
			most = max(most, inside)
			runs += n
		}
		work := func() {
			add(1)
			time.Sleep(700 * time.Millisecond)
			mu.Lock()
			inside--
			mu.Unlock()
		}
		old := func() error {
			since, err := acquireMonglock(t.Context(), coll, 1)
			if err != nil {
				return err
			}
			work()
			_, err = coll.UpdateOne(t.Context(), bson.M{"_id": 1, "lock.timestamp": since.UnixMilli()}, bson.M{"$set": bson.M{"lock.active": false}})
			return err
		}
		fresh := func() error {
			locks, err := writelock.New(coll, doclock.Field("doclock"))
			if err != nil {
				return err
			}
			return errors.Join(underBoth(t.Context(), locks, coll, 1, func(ctx context.Context, lease *doclock.Lease) error {
				work()
				return lease.Update(ctx, bson.M{"$inc": bson.M{"n": 1}})
			}), locks.Close(t.Context()))
		}
		var group sync.WaitGroup
		for range 3 {
			for _, program := range []func() error{old, fresh} {
				group.Go(func() {
					for range 4 {
						if err := program(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		group.Wait()
		if most != 1 || runs != 24 {
			t.Errorf("up to %d inside at a time, %d runs", most, runs)
		}
	})
}
