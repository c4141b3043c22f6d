package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Each call meets an election, on a replica set in memory. No answer is false, and
// few are unknown.

// election is what a call meets.
type election struct {
	name   string
	before func(r *place) // the call
	soon   func(r *place) // while its first command is under way, or after its loss
}

const (
	isolation = 2 * time.Second // until the others elect a primary
	healing   = 4 * time.Second // until the network is as before
)

// cut leaves the old primary alone with the Locker's client.
func (r *place) cut() {
	old := r.mem.Primary()
	r.mem.Cut(r.mem.Client(), r.mem.Secondaries()...)
	r.mem.Isolate(old)
}

func (r *place) isolate() { r.mem.Isolate(r.mem.Primary()) }

func nothing(*place) {}

// elections are all of them, with one of each kind first.
var elections = []election{
	{"a step-down after a lost reply", func(r *place) { r.mem.LoseReplies(1) }, func(r *place) { r.mem.StepDown() }},
	{"an old primary", (*place).isolate, nothing},
	{"an old primary alone, lost reply", func(r *place) { r.cut(); r.mem.LoseReplies(1) }, nothing},
	{"an old primary alone, late request", func(r *place) { r.cut(); r.mem.Delay(1, healing+time.Second) }, nothing},
	{"a step-down", func(r *place) { r.mem.StepDown() }, nothing},
	{"a step-down after a lost request", func(r *place) { r.mem.LoseRequests(1) }, func(r *place) { r.mem.StepDown() }},
	{"a step-down before a late request", func(r *place) { r.mem.Delay(1, time.Second) }, func(r *place) { r.mem.StepDown() }},
	{"an old primary, lost request", func(r *place) { r.isolate(); r.mem.LoseRequests(1) }, nothing},
	{"an old primary, lost reply", func(r *place) { r.isolate(); r.mem.LoseReplies(1) }, nothing},
	{"an old primary alone", (*place).cut, nothing},
	{"an old primary alone, lost request", func(r *place) { r.cut(); r.mem.LoseRequests(1) }, nothing},
	{"an old primary alone, all replies lost", func(r *place) { r.cut(); r.mem.LoseReplies(1 << 30) }, nothing},
}

// metElections are those that the tests try: in the short form one of each kind.
func metElections() []election {
	if *long {
		return elections
	}
	return elections[:4]
}

// strike has the election happen from now on, and returns a wait for its end.
func (e election) strike(r *place) (healed func()) {
	done := make(chan struct{})
	e.before(r)
	go func() {
		defer close(done)
		time.Sleep(time.Millisecond)
		e.soon(r)
		time.Sleep(isolation)
		r.mem.StepDown()
		time.Sleep(healing - isolation)
		r.mem.LoseReplies(0)
		r.mem.Heal()
	}()
	return func() { <-done; synctest.Wait() }
}

// fault is the election as a fault of an order's call.
func (e election) fault(r *place) orderFault {
	var healed func()
	return orderFault{
		name: e.name,
		arm:  func(*order, orderCall) { healed = e.strike(r) },
		end:  func(*order) { healed() },
	}
}

// The call's answer is as good as without the election.
func TestCallsInElections(t *testing.T) {
	t.Parallel()
	for _, e := range metElections() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			onCluster(t, func(r *place) {
				ttl := doclock.TTL(orderTTL)
				all := &orders{place: r, net: r.mem, here: r.ours(ttl), there: r.ours(ttl)}
				unknown := 0
				for _, c := range orderCalls {
					o := all.run(event{c.name + " in " + e.name, func(o *order) { o.call(c, e.fault(r)) }})
					if errors.Is(o.errs[0], doclock.ErrOutcomeUnknown) {
						unknown++
					}
					o.over()
				}
				t.Logf("%d calls, %d unknown outcomes", all.n, unknown)
			})
		})
	}
}

// inTurn has a waiter get the lock that is released in an election.
func (r *place) inTurn(holder, waiter *multilock.Locker, election func() func()) {
	first := r.got(holder.Acquire(r.Context(), flowers, "write"))
	second := begin(r, func() (doclock.Lease, error) { return waiter.Acquire(r.Context(), flowers, "write") })
	synctest.Wait()
	healed := election()
	ok(r, first.Release(r.Context()))
	lease := r.got(second.wait())
	healed()
	r.wantEntries(lease)
	ok(r, lease.Release(r.Context()))
}

// elected is what else the library does. It ends with nothing in the documents.
var elected = []struct {
	name string
	do   func(r *place, here, there *multilock.Locker, election func() (healed func()))
}{
	{"acquire", func(r *place, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		lease := r.got(here.Acquire(r.Context(), flowers, "write"))
		healed()
		r.wantEntries(lease)
		ok(r, lease.Release(r.Context()))
	}},
	{"acquire of a caller that leaves", func(r *place, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		ctx := r.within(isolation / 2)
		lease, err := here.Acquire(ctx, flowers, "write")
		healed()
		if err == nil {
			ok(r, lease.Release(r.Context()))
		} else if !errors.Is(err, doclock.ErrNotAcquired) {
			r.Error(err)
		}
	}},
	{"acquire by another filter", func(r *place, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		lease, err := here.TryAcquire(r.Context(), byName, "write") // it is sent once
		healed()
		if err == nil {
			ok(r, lease.Release(r.Context()))
		} else if !errors.Is(err, doclock.ErrNotAcquired) || errors.Is(err, doclock.ErrNotFound) || errors.Is(err, doclock.ErrConflict) {
			r.Error(err)
		}
	}},
	{"handoff", func(r *place, here, _ *multilock.Locker, election func() func()) {
		r.inTurn(here, here, election)
	}},
	{"release to another process", func(r *place, here, there *multilock.Locker, election func() func()) {
		r.inTurn(here, there, election)
	}},
	{"resume and touch", func(r *place, here, _ *multilock.Locker, election func() func()) {
		token, err := r.got(here.Acquire(r.Context(), flowers, "write")).Detach(r.Context())
		ok(r, err)
		healed := election()
		ok(r, here.Touch(r.Context(), flowers, token))
		lease := r.got(here.Resume(r.Context(), flowers, token))
		healed()
		r.wantEntries(lease)
		ok(r, lease.Release(r.Context()))
	}},
	{"claim", func(r *place, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		lease := r.got(here.Acquire(r.Context(), bson.M{}, "write", doclock.SkipLocked()))
		healed()
		time.Sleep(time.Minute) // the clean-up's
		r.wantLocked(1)
		ok(r, lease.Release(r.Context()))
	}},
	{"AcquireBatch", func(r *place, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		batch, err := here.AcquireBatch(r.Context(), bson.M{}, "write", 2)
		healed()
		must(r, err)
		for _, lease := range batch {
			lease.KeepAlive(r.Context())
		}
		time.Sleep(time.Minute) // the clean-up's
		r.wantLocked(int64(len(batch)))
		healed = election()
		ok(r, batch.Renew(r.Context()))
		healed()
		healed = election()
		ok(r, batch.Release(r.Context()))
		healed()
		r.wantLocked(0)
	}},
	{"DoAll", func(r *place, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		ok(r, multilock.DoAll(r.Context(), func(context.Context, multilock.Leases) error {
			healed()
			return nil
		}, here.Want(flowers, "write"), here.Want(doclock.ID(2), "write")))
	}},
	{"leases that are kept alive", func(r *place, here, _ *multilock.Locker, election func() func()) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		kept := []doclock.Lease{r.got(here.Acquire(ctx, flowers, "write")), r.got(here.Acquire(ctx, bson.M{"_id": 2}, "write"))}
		for _, lease := range kept {
			lease.KeepAlive(ctx)
		}
		election()()
		time.Sleep(time.Minute)
		for _, lease := range kept {
			ok(r, lease.Err())
			ok(r, lease.Release(ctx))
		}
	}},
}

func TestElections(t *testing.T) {
	t.Parallel()
	for _, c := range elected {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, e := range metElections() {
				t.Run(e.name, func(t *testing.T) {
					onCluster(t, func(r *place) {
						_, err := r.coll.InsertOne(r.Context(), bson.M{"_id": 2})
						must(r, err)
						c.do(r, r.ours(), r.ours(), func() func() { return e.strike(r) })
						time.Sleep(time.Minute) // the clean-up's
						r.wantEntries()
					})
				})
			}
		})
	}
}

// A program that starts reaches only the old primary, which knows neither the
// document nor the token's entry.
func TestANewClientOfAnOldPrimary(t *testing.T) {
	t.Parallel()
	onCluster(t, func(r *place) {
		old := r.mem.Primary()
		r.isolate()
		r.mem.StepDown()
		time.Sleep(time.Second) // the clients hear of it
		_, err := r.coll.InsertOne(r.Context(), bson.M{"_id": 2})
		must(r, err)
		token, err := r.got(r.ours().Acquire(r.Context(), flowers, "write")).Detach(r.Context())
		must(r, err)

		client := r.mem.Connect()
		members := append(r.mem.Secondaries(), r.mem.Primary())
		r.mem.Cut(client, slices.DeleteFunc(members, func(m string) bool { return m == old })...)
		l, err := multilock.New(client.Database("test").Collection("documents"), relations.WritePreferring())
		must(r, err)
		defer r.rest(l)
		touch := begin(r, func() (bool, error) { return true, l.Touch(r.Context(), flowers, token) })
		resume := begin(r, func() (doclock.Lease, error) { return l.Resume(r.Context(), flowers, token) })
		acquire := begin(r, func() (doclock.Lease, error) { return l.Acquire(r.Context(), bson.M{"_id": 2}, "write") })
		time.Sleep(healing)
		r.mem.Heal()
		ok(r, errOf(touch.wait()))
		ok(r, r.got(resume.wait()).Release(r.Context()))
		ok(r, r.got(acquire.wait()).Release(r.Context()))
	})
}

// An operator's client reaches only the old primary, which doesn't know the entry. That
// is no proof that there is none. The client may have heard of the new primary before, so
// the test tries it often.
func TestABreakAtAnOldPrimary(t *testing.T) {
	t.Parallel()
	for range 10 {
		onCluster(t, func(r *place) {
			old := r.mem.Primary()
			r.isolate()
			r.mem.StepDown()
			time.Sleep(time.Second) // the clients hear of it
			lease := r.got(r.ours().Acquire(r.Context(), flowers, "write"))
			lock, err := admin.Inspect(r.Context(), r.coll, flowers)
			must(r, err)
			client := r.mem.Connect()
			r.mem.Cut(client, slices.DeleteFunc(append(r.mem.Secondaries(), r.mem.Primary()), func(m string) bool { return m == old })...)
			broken := begin(r, func() (admin.Entry, error) {
				return admin.Break(r.Context(), client.Database("test").Collection("documents"), lock.Entries[0])
			})
			time.Sleep(healing)
			r.mem.Heal()
			if err := errOf(broken.wait()); errors.Is(err, admin.ErrNoEntry) {
				r.Error(err)
			} else if err != nil {
				ok(r, lease.Release(r.Context()))
			}
		})
	}
}

// The first attempt is executed by the old primary alone. Its repeat changes nothing,
// and so it must wait, too.
func TestARepeatAtAnOldPrimary(t *testing.T) {
	t.Parallel()
	onCluster(t, func(r *place) {
		old, others := r.ours(), r.plain(relations.WritePreferring())
		r.cut()
		r.mem.StepDown()
		time.Sleep(time.Second) // the others hear of it
		ctx := r.within(20 * time.Second)
		one, err := old.Acquire(ctx, flowers, "write", doclock.HoldAtLeast(time.Minute))
		if err == nil {
			other, err := others.TryAcquire(r.Context(), flowers, "write")
			if err == nil && one.Err() == nil && other.Err() == nil {
				r.Error("two leases are valid")
			}
		}
		r.mem.Heal()
	})
}

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
		both := [2]*pending[doclock.Lease]{}
		for i := range both {
			both[i] = begin(p, func() (doclock.Lease, error) { return one.Acquire(p.bounded(), northern, "read") })
		}
		holder, beside := p.granted(both[0]), p.granted(both[1])
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
