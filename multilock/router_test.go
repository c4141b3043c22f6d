package multilock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/routertest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var northern = bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}}

// sharded is a document in a collection that is sharded by region, behind two
// routers whose clocks differ.
func sharded(t *testing.T, apart time.Duration) (p *place, slow, fast *mongo.Collection, routers [2]*routertest.Router) {
	t.Helper()
	p = newPlace(t)
	p.Change(bson.M{"$set": bson.M{"region": "north"}})
	var colls [2]*mongo.Collection
	for i := range routers {
		routers[i] = routertest.Start(t, mongotest.URI(t))
		routers[i].Shard(p.coll.Database().Name()+"."+p.coll.Name(), "region")
		colls[i] = p.Through(options.Client().ApplyURI(routers[i].URI()))
	}
	routers[1].Skew(apart)
	return p, colls[0], colls[1], routers
}

// unrefused fails if a router has refused a command.
func unrefused(t *testing.T, routers [2]*routertest.Router) {
	t.Helper()
	for i, r := range routers {
		if n := r.Refused(); n > 0 {
			t.Errorf("router %d refused %d commands", i, n)
		}
	}
}

// All commands of a holder and of its waiters name the shard key. A filter with the
// shard key's equalities names the document, as an _id does elsewhere: readers share an
// entry, and a waiter is handed the lock.
func TestThroughRouters(t *testing.T) {
	t.Parallel()
	p, slow, fast, routers := sharded(t, 200*time.Millisecond)
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
	var waiting []*pending[*doclock.Lease]
	for range 2 {
		waiting = append(waiting, begin(p, func() (*doclock.Lease, error) {
			return nil, two.Do(p.bounded(), northern, "write", func(context.Context, *doclock.Lease) error { return nil })
		}))
	}
	p.release(lease)
	for _, call := range waiting {
		ok(t, errOf(call.wait()))
	}
	p.wantEntries()
	unrefused(t, routers)
}

// An acquire of unknown outcome is cleaned up with the pin that its filter
// demands. A router refuses a filter with less.
func TestAnUnknownAcquireIsCleanedUpThroughARouter(t *testing.T) {
	t.Parallel()
	p, _, _, routers := sharded(t, 0)
	net := faultnet.New()
	l := p.locker(p.Through(options.Client().SetDialer(net).SetRetryWrites(false).ApplyURI(routers[0].URI())), relations.Fair(), doclock.ShardKey("region"))
	lost := net.Arm(faultnet.LoseReply, "findAndModify")
	ctx, cancel := context.WithCancel(p.bounded())
	call := begin(p, func() (*doclock.Lease, error) { return l.TryAcquire(ctx, northern, "write") })
	wait(t, lost.Fired())
	cancel()
	p.want(errOf(call.wait()), doclock.ErrNotAcquired)
	p.rest(l)
	p.wantEntries()
	unrefused(t, routers)
}

// A filter without the shard key gets an error that says what to do.
func TestAFilterWithoutTheShardKey(t *testing.T) {
	t.Parallel()
	p, slow, _, routers := sharded(t, 0)
	l := p.locker(slow, relations.Fair(), doclock.ShardKey("region"))
	_, err := l.TryAcquire(p.bounded(), flowers, "write")
	p.wantNot(err, doclock.ErrOutcomeUnknown)
	if err == nil || !strings.Contains(err.Error(), "ShardKey") || routers[0].Refused() != 1 {
		t.Errorf("TryAcquire = %v, after %d refusals", err, routers[0].Refused())
	}
	p.wantEntries()
}
