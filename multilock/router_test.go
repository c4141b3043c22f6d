package multilock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var northern = bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}}

// sharded runs a test in virtual time with a document in a collection that is sharded by region, behind two routers whose clocks
// differ. It has the collection through each of them, and a count of their refusals.
func sharded(t *testing.T, apart time.Duration, test func(p *place, slow, fast *mongo.Collection, refused *atomic.Int32)) {
	t.Helper()
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		p, mem := newPlace(t), mongotest.Memory(t)
		p.Change(bson.M{"$set": bson.M{"region": "north"}})
		p.Shard(bson.M{"region": 1})
		const one, other = "router.locktest:27017", "other.locktest:27017"
		mem.Advance(apart, other)
		var refused atomic.Int32
		through := func(router, without string) *mongo.Collection {
			coll := p.Through(options.Client().SetMonitor(&driver.CommandMonitor{
				Failed: func(context.Context, *driver.CommandFailedEvent) { refused.Add(1) },
				Succeeded: func(_ context.Context, e *driver.CommandSucceededEvent) {
					if e.Reply.Lookup("writeErrors").Type != 0 {
						refused.Add(1)
					}
				},
			}))
			mem.Cut(coll.Database().Client(), without)
			return coll
		}
		test(p, through(one, other), through(other, one), &refused)
	}, locktest.Sharded())
}

// All commands of a holder and of its waiters name the shard key. A filter with the
// shard key's equalities names the document, as an _id does elsewhere: readers share an
// entry, and a waiter is handed the lock.
func TestThroughRouters(t *testing.T) {
	sharded(t, 200*time.Millisecond, func(p *place, slow, fast *mongo.Collection, refused *atomic.Int32) {
		key := doclock.ShardKey("region")
		one, two := p.locker(slow, relations.Fair(), key, doclock.ShareInProcess("read")), p.locker(fast, relations.Fair(), key)
		holder, beside := p.got(one.TryAcquire(p.bounded(), northern, "read")), p.got(one.TryAcquire(p.bounded(), northern, "read"))
		if holder.ID() != beside.ID() {
			t.Error("two readers of one process have two entries")
		}
		ok(t, holder.Renew(p.bounded()))
		ok(t, holder.Update(p.bounded(), plusOne))
		ticket, err := two.Enqueue(p.bounded(), northern, "write")
		must(t, err)
		p.conflict(errOf(ticket.Confirm(p.bounded())))
		ok(t, holder.UpdateAndRelease(p.bounded(), plusOne))
		p.release(beside)
		lease := p.got(ticket.Confirm(p.bounded()))

		// Two wait in one process: the first one's release hands the lock to the second.
		var waiting []*pending[doclock.Lease]
		for range 2 {
			waiting = append(waiting, begin(p, func() (doclock.Lease, error) {
				return nil, two.Do(p.bounded(), northern, "write", func(context.Context, doclock.Lease) error { return nil })
			}))
		}
		p.release(lease)
		for _, call := range waiting {
			ok(t, errOf(call.wait()))
		}
		p.wantEntries()
		if n := refused.Load(); n > 0 {
			t.Errorf("%d commands were refused", n)
		}
	})
}

// An acquire of unknown outcome is cleaned up with the pin that its filter
// demands. A router refuses a filter with less.
func TestAnUnknownAcquireIsCleanedUpThroughARouter(t *testing.T) {
	sharded(t, 0, func(p *place, _, _ *mongo.Collection, _ *atomic.Int32) {
		net := faultnet.New()
		l := p.locker(p.Through(options.Client().SetDialer(net).SetRetryWrites(false)), relations.Fair(), doclock.ShardKey("region"))
		lost := net.Arm(faultnet.LoseReply, "findAndModify")
		ctx, cancel := context.WithCancel(p.bounded())
		call := begin(p, func() (doclock.Lease, error) { return l.TryAcquire(ctx, northern, "write") })
		wait(t, lost.Fired())
		cancel()
		p.want(errOf(call.wait()), doclock.ErrNotAcquired)
		p.rest(l)
		p.wantEntries()
	})
}

// A filter without the shard key gets an error that says what to do.
func TestAFilterWithoutTheShardKey(t *testing.T) {
	sharded(t, 0, func(p *place, slow, _ *mongo.Collection, refused *atomic.Int32) {
		l := p.locker(slow, relations.Fair(), doclock.ShardKey("region"))
		_, err := l.TryAcquire(p.bounded(), flowers, "write")
		p.wantNot(err, doclock.ErrOutcomeUnknown)
		if err == nil || !strings.Contains(err.Error(), "ShardKey") || refused.Load() != 1 {
			t.Errorf("TryAcquire = %v, after %d refusals", err, refused.Load())
		}
		p.wantEntries()
	})
}
