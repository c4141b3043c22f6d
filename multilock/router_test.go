package multilock_test

import (
	"context"
	"errors"
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
	p.change(bson.M{"$set": bson.M{"region": "north"}})
	var colls [2]*mongo.Collection
	for i := range routers {
		routers[i] = routertest.Start(t, mongotest.URI(t))
		routers[i].Shard(p.coll.Database().Name()+"."+p.coll.Name(), "region")
		colls[i] = p.via(options.Client().ApplyURI(routers[i].URI()))
	}
	routers[1].Skew(apart)
	return p, colls[0], colls[1], routers
}

// All commands of a holder and of its waiters name the shard key.
func TestThroughRouters(t *testing.T) {
	t.Parallel()
	p, slow, fast, routers := sharded(t, 200*time.Millisecond)
	key := doclock.ShardKey("region")
	one, two := p.locker(slow, relations.Fair(), key), p.locker(fast, relations.Fair(), key)
	try := func(tag string) *doclock.Lease {
		t.Helper()
		lease, err := one.TryAcquire(p.bounded(), northern, tag)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}

	holder, beside := try("read"), try("read")
	if err := holder.Renew(p.bounded()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if err := holder.Update(p.bounded(), bson.M{"$inc": bson.M{"total": 1}}); err != nil {
		t.Errorf("Update: %v", err)
	}
	ticket, err := two.Enqueue(p.bounded(), northern, "write")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ticket.Confirm(p.bounded()); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("Confirm beside readers: %v", err)
	}
	if err := holder.UpdateAndRelease(p.bounded(), bson.M{"$inc": bson.M{"total": 1}}); err != nil {
		t.Errorf("UpdateAndRelease: %v", err)
	}
	p.release(beside)
	lease, err := ticket.Confirm(p.bounded())
	if err != nil {
		t.Fatal(err)
	}

	// Two wait in one process: the first one's release hands the lock to the second.
	waiting := make(chan error, 2)
	for range 2 {
		go func() {
			waiting <- two.Do(p.bounded(), northern, "write", func(context.Context, *doclock.Lease) error { return nil })
		}()
	}
	p.release(lease)
	for range 2 {
		if err := <-waiting; err != nil {
			t.Errorf("Do: %v", err)
		}
	}
	p.wantEntries()
	for i, r := range routers {
		if n := r.Refused(); n > 0 {
			t.Errorf("router %d refused %d commands", i, n)
		}
	}
}

// An acquire of unknown outcome is cleaned up with the pin that its filter
// demands. A router refuses a filter with less.
func TestAnUnknownAcquireIsCleanedUpThroughARouter(t *testing.T) {
	t.Parallel()
	p, _, _, routers := sharded(t, 0)
	net := faultnet.New()
	l := p.locker(p.via(options.Client().SetDialer(net).SetRetryWrites(false).ApplyURI(routers[0].URI())), relations.Fair(), doclock.ShardKey("region"))
	lost := net.ArmWhere(faultnet.LoseReply, func(command string, _ bson.Raw) bool { return command == "findAndModify" })
	ctx, cancel := context.WithCancel(p.bounded())
	answered := make(chan error, 1)
	go func() {
		_, err := l.TryAcquire(ctx, northern, "write")
		answered <- err
	}()
	wait(t, lost.Fired())
	cancel()
	if err := <-answered; err == nil {
		t.Error("TryAcquire whose caller gave up is granted")
	}
	p.rest(l)
	p.wantEntries()
	if n := routers[0].Refused(); n > 0 {
		t.Errorf("the router refused %d commands", n)
	}
}

// A filter with the shard key's equalities names the document, as an _id does
// elsewhere. Readers share an entry, and a waiter is handed the lock.
func TestFiltersWithTheShardKeyShareAndInherit(t *testing.T) {
	t.Parallel()
	p, _, _, routers := sharded(t, 0)
	w := &watch{}
	coll := p.via(options.Client().ApplyURI(routers[0].URI()).SetMonitor(w.monitor(p.coll.Database().Name())))
	l := p.locker(coll, relations.Fair(), doclock.ShardKey("region"), doclock.ShareInProcess("read"))
	first, err := l.TryAcquire(p.bounded(), northern, "read")
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.TryAcquire(p.bounded(), northern, "read")
	if err != nil {
		t.Fatal(err)
	}
	if first.ID() != second.ID() {
		t.Error("two readers of one process have two entries")
	}
	p.release(first)
	waiting := make(chan *doclock.Lease, 1)
	go func() {
		lease, err := l.Acquire(p.bounded(), northern, "write")
		if err != nil {
			t.Error(err)
		}
		waiting <- lease
	}()
	p.waiting("write")
	p.release(second)
	if lease := <-waiting; lease != nil {
		p.release(lease)
	}
	p.wantEntries()
	if n := routers[0].Refused(); n > 0 {
		t.Errorf("the router refused %d commands", n)
	}
}

// An entry may be written by the clock of one router and expire by the clock of
// another. Only the tolerance covers the difference.
func TestTheToleranceCoversTheRoutersClocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tolerance time.Duration
		is        error
	}{
		"enough": {time.Hour, doclock.ErrConflict},
		"less":   {time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, slow, fast, _ := sharded(t, 30*time.Minute)
			opts := []doclock.Option{doclock.ShardKey("region"), doclock.ClockTolerance(c.tolerance)}
			one, two := p.locker(slow, relations.Fair(), opts...), p.locker(fast, relations.Fair(), opts...)
			holder, err := one.TryAcquire(p.bounded(), northern, "write")
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Release(p.bounded())
			other, err := two.TryAcquire(p.bounded(), northern, "write")
			if !errors.Is(err, c.is) {
				t.Errorf("beside a holder, through another router: %v", err)
			}
			if other != nil {
				p.release(other)
			}
		})
	}
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

func TestCheckServerThroughRouters(t *testing.T) {
	t.Parallel()
	p, _, _, routers := sharded(t, 30*time.Minute)
	coll := p.via(options.Client().ApplyURI(routertest.URI(routers[:]...)).SetLocalThreshold(patience))
	info, err := doclock.CheckServer(p.bounded(), coll)
	if err != nil || info.Kind != doclock.Sharded || !info.NeedsShardKey {
		t.Errorf("CheckServer = %+v, %v", info, err)
	}
	if wrong := info.ClockSkew - 30*time.Minute; wrong.Abs() > time.Minute {
		t.Errorf("the routers' clocks differ by %v", info.ClockSkew)
	}
}
