package multilock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mostASecond is how many commands a call in flight sends in a second at most, whatever
// its server answers.
const mostASecond = 20

// paced is a call that a server in trouble gets, after what it needs.
type paced struct {
	name    string
	prepare func(s *scene) func(context.Context)
}

// scene is a client of a replica set with a lease.
type scene struct {
	*replicated
	coll  *mongo.Collection
	locks *multilock.Locker
}

func (s *scene) try(filter any, opts ...doclock.AcquireOption) doclock.Lease {
	return s.got(s.locks.TryAcquire(s.Context(), filter, "write", opts...))
}

// ofLease is a call of a lease's method.
func ofLease(call func(context.Context, doclock.Lease)) func(s *scene) func(context.Context) {
	return func(s *scene) func(context.Context) {
		lease := s.try(flowers)
		return func(ctx context.Context) { call(ctx, lease) }
	}
}

// ofLost is the same after the loss of the entry: what the command doesn't find is read.
func ofLost(call func(context.Context, doclock.Lease)) func(s *scene) func(context.Context) {
	return func(s *scene) func(context.Context) {
		lease := s.try(flowers)
		s.erase("write")
		return func(ctx context.Context) { call(ctx, lease) }
	}
}

// ofLocker is a call that asks for a lock.
func ofLocker(filter any, opts ...doclock.AcquireOption) func(s *scene) func(context.Context) {
	return func(s *scene) func(context.Context) {
		return func(ctx context.Context) { _, _ = s.locks.Acquire(ctx, filter, "write", opts...) }
	}
}

var (
	add   = bson.M{"$inc": bson.M{"total": 1}}
	write = func(ctx context.Context, l doclock.Lease) { _ = l.Update(ctx, add) }
	end   = func(ctx context.Context, l doclock.Lease) { _ = l.UpdateAndRelease(ctx, add) }
)

var pacedCalls = []paced{
	{"Acquire", ofLocker(flowers)},
	{"Acquire of no document", ofLocker(doclock.ID(99))},
	{"Acquire, any filter", ofLocker(byName)},
	{"a claim", ofLocker(byName, doclock.SkipLocked())},
	{"Acquire behind another", func(s *scene) func(context.Context) {
		s.try(flowers, doclock.TTL(time.Hour))
		return ofLocker(flowers)(s)
	}},
	{"Renew", ofLease(func(ctx context.Context, l doclock.Lease) { _ = l.Renew(ctx) })},
	{"Renew, lost", ofLost(func(ctx context.Context, l doclock.Lease) { _ = l.Renew(ctx) })},
	{"Update", ofLease(write)},
	{"Update, lost", ofLost(write)},
	{"UpdateAndRelease", ofLease(end)},
	{"UpdateAndRelease, lost", ofLost(end)},
	{"UpdateAndRelease, to a waiter", func(s *scene) func(context.Context) {
		lease := s.try(flowers)
		go ofLocker(flowers)(s)(s.Context())
		time.Sleep(time.Second)
		s.erase("write")
		return func(ctx context.Context) { end(ctx, lease) }
	}},
	{"Release", ofLease(func(ctx context.Context, l doclock.Lease) { _ = l.Release(ctx) })},
	{"Release, lost", ofLost(func(ctx context.Context, l doclock.Lease) { _ = l.Release(ctx) })},
	{"Delete", ofLease(func(ctx context.Context, l doclock.Lease) { _ = l.Delete(ctx) })},
	{"Delete, lost", ofLost(func(ctx context.Context, l doclock.Lease) { _ = l.Delete(ctx) })},
	{"Detach", ofLease(func(ctx context.Context, l doclock.Lease) { _, _ = l.Detach(ctx) })},
	{"Detach, lost", ofLost(func(ctx context.Context, l doclock.Lease) { _, _ = l.Detach(ctx) })},
	{"Downgrade", ofLease(func(ctx context.Context, l doclock.Lease) { _, _ = l.Downgrade(ctx, "read") })},
	{"a kept lease", ofLease(func(ctx context.Context, l doclock.Lease) { l.KeepAlive(ctx) })},
	{"two kept leases", func(s *scene) func(context.Context) {
		a, b := s.try(flowers), s.try(doclock.ID(10))
		return func(ctx context.Context) { a.KeepAlive(ctx); b.KeepAlive(ctx) }
	}},
	{"admin.Inspect", func(s *scene) func(context.Context) {
		return func(ctx context.Context) { _, _ = admin.Inspect(ctx, s.coll, flowers) }
	}},
	{"admin.Remove", func(s *scene) func(context.Context) {
		s.try(flowers)
		return func(ctx context.Context) { _, _ = admin.Remove(ctx, s.coll, admin.Query{Tags: []string{"write"}}) }
	}},
}

// A server in trouble gets no more than twenty commands a second of each call, whatever it
// answers, and time goes on: nothing is sent again without a pause.
func TestACallRestsInTrouble(t *testing.T) {
	t.Parallel()
	type trouble struct {
		name   string
		strike func(c *locktest.Server, only ...locktest.Kind)
	}
	troubles := []trouble{
		{"lost requests", func(c *locktest.Server, only ...locktest.Kind) { c.LoseRequests(1<<30, only...) }},
		{"lost replies", func(c *locktest.Server, only ...locktest.Kind) { c.LoseReplies(1<<30, only...) }},
	}
	for _, refusal := range []mongo.CommandError{
		overloaded, conflicting, {Code: 6}, {Code: 50}, {Code: 134}, {Code: 189}, {Code: 262}, {Code: 9001}, {Code: 10107}, {Code: 11600}, {Code: 424242},
	} {
		troubles = append(troubles, trouble{fmt.Sprint("code ", refusal.Code), func(c *locktest.Server, only ...locktest.Kind) {
			c.Fail(1<<30, refusal, only...)
		}})
	}
	for _, call := range pacedCalls {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			for _, trouble := range troubles {
				for _, only := range [][]locktest.Kind{nil, {locktest.Others}} {
					if most := call.most(t, trouble.strike, only...); most > mostASecond {
						t.Errorf("%s of the kinds %v: %d commands in a second", trouble.name, only, most)
					}
				}
			}
		})
	}
}

// most is how many commands the call sends in a second of trouble, at most.
func (c paced) most(t *testing.T, strike func(*locktest.Server, ...locktest.Kind), only ...locktest.Kind) (most int) {
	onCluster(t, func(r *replicated) {
		must(r, errOf(r.coll.InsertOne(r.Context(), doclock.ID(10))))
		var lock sync.Mutex
		var sent []time.Time // in the last second
		counted := false
		coll := r.cluster.Connect(options.Client().SetMonitor(fixture.Monitor(func(bson.Raw) {
			lock.Lock()
			defer lock.Unlock()
			for now := time.Now(); len(sent) > 0 && now.Sub(sent[0]) >= time.Second; {
				sent = sent[1:]
			}
			if sent = append(sent, time.Now()); counted {
				most = max(most, len(sent))
			}
			if most > 10*mostASecond { // it has no end
				r.cluster.Fail(0, mongo.CommandError{})
				r.cluster.LoseRequests(0)
				r.cluster.LoseReplies(0)
			}
		}))).Database("test").Collection("documents")
		locks, err := multilock.New(coll, relations.WritePreferring())
		must(r, err)
		call := c.prepare(&scene{r, coll, locks})
		time.Sleep(time.Second)
		lock.Lock()
		sent, counted = nil, true
		lock.Unlock()
		strike(r.cluster, only...)
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		call(ctx)
		time.Sleep(5 * time.Second)
		cancel()
		lock.Lock()
		counted = false
		lock.Unlock()
		r.cluster.Fail(0, mongo.CommandError{})
		r.cluster.LoseRequests(0)
		r.cluster.LoseReplies(0)
		_ = locks.Close(context.Background())
		time.Sleep(time.Minute)
	})
	return most
}
