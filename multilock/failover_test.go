package multilock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Each call meets an election, on a replica set in memory. No answer is false, and
// few are unknown.

// replicated is one document, and others, on a replica set.
type replicated struct {
	*place
	cluster *locktest.Server
}

// onCluster runs a test on a replica set, in virtual time. The test's own hand has a
// client that no fault cuts off.
func onCluster(t *testing.T, test func(r *replicated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := locktest.New(t, locktest.ReplicaSet())
		hand := c.Connect().Database("test").Collection("documents")
		p := &place{Document: &fixture.Document{TB: t, Hand: hand, ID: int32(1)}, coll: hand}
		p.insert()
		test(&replicated{p, c})
	})
}

// locker makes a Locker whose client faults cut off.
func (r *replicated) locker(opts ...doclock.Option) *multilock.Locker {
	r.Helper()
	l, err := multilock.New(r.cluster.Collection("documents"), relations.WritePreferring(), opts...)
	must(r, err)
	r.Cleanup(func() { r.rest(l) })
	return l
}

// election is what a call meets.
type election struct {
	name   string
	before func(r *replicated) // the call
	soon   func(r *replicated) // while its first command is under way, or after its loss
}

const (
	isolation = 2 * time.Second // until the others elect a primary
	healing   = 4 * time.Second // until the network is as before
)

// cut leaves the old primary alone with the Locker's client.
func (r *replicated) cut() {
	old := r.cluster.Primary()
	r.cluster.Cut(r.cluster.Client(), r.cluster.Secondaries()...)
	r.cluster.Isolate(old)
}

func (r *replicated) isolate() { r.cluster.Isolate(r.cluster.Primary()) }

func nothing(*replicated) {}

// elections are all of them, with one of each kind first.
var elections = []election{
	{"a step-down after a lost reply", func(r *replicated) { r.cluster.LoseReplies(1) }, func(r *replicated) { r.cluster.StepDown() }},
	{"an old primary", (*replicated).isolate, nothing},
	{"an old primary alone, lost reply", func(r *replicated) { r.cut(); r.cluster.LoseReplies(1) }, nothing},
	{"an old primary alone, late request", func(r *replicated) { r.cut(); r.cluster.Delay(1, healing+time.Second) }, nothing},
	{"a step-down", func(r *replicated) { r.cluster.StepDown() }, nothing},
	{"a step-down after a lost request", func(r *replicated) { r.cluster.LoseRequests(1) }, func(r *replicated) { r.cluster.StepDown() }},
	{"a step-down before a late request", func(r *replicated) { r.cluster.Delay(1, time.Second) }, func(r *replicated) { r.cluster.StepDown() }},
	{"an old primary, lost request", func(r *replicated) { r.isolate(); r.cluster.LoseRequests(1) }, nothing},
	{"an old primary, lost reply", func(r *replicated) { r.isolate(); r.cluster.LoseReplies(1) }, nothing},
	{"an old primary alone", (*replicated).cut, nothing},
	{"an old primary alone, lost request", func(r *replicated) { r.cut(); r.cluster.LoseRequests(1) }, nothing},
	{"an old primary alone, all replies lost", func(r *replicated) { r.cut(); r.cluster.LoseReplies(1 << 30) }, nothing},
}

// metElections are those that the tests try: in the short form one of each kind.
func metElections() []election {
	if *long {
		return elections
	}
	return elections[:4]
}

// strike has the election happen from now on, and returns a wait for its end.
func (e election) strike(r *replicated) (healed func()) {
	done := make(chan struct{})
	e.before(r)
	go func() {
		defer close(done)
		time.Sleep(time.Millisecond)
		e.soon(r)
		time.Sleep(isolation)
		r.cluster.StepDown()
		time.Sleep(healing - isolation)
		r.cluster.LoseReplies(0)
		r.cluster.Heal()
	}()
	return func() { <-done; synctest.Wait() }
}

// fault is the election as a fault of an order's call.
func (e election) fault(r *replicated) orderFault {
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
			onCluster(t, func(r *replicated) {
				ttl := doclock.TTL(orderTTL)
				all := &orders{place: r.place, net: r.cluster, here: r.locker(ttl), there: r.locker(ttl)}
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
func (r *replicated) inTurn(holder, waiter *multilock.Locker, election func() func()) {
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
	do   func(r *replicated, here, there *multilock.Locker, election func() (healed func()))
}{
	{"acquire", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		lease := r.got(here.Acquire(r.Context(), flowers, "write"))
		healed()
		r.wantEntries(lease)
		ok(r, lease.Release(r.Context()))
	}},
	{"acquire of a caller that leaves", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
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
	{"acquire by another filter", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		lease, err := here.TryAcquire(r.Context(), byName, "write") // it is sent once
		healed()
		if err == nil {
			ok(r, lease.Release(r.Context()))
		} else if !errors.Is(err, doclock.ErrNotAcquired) || errors.Is(err, doclock.ErrNotFound) || errors.Is(err, doclock.ErrConflict) {
			r.Error(err)
		}
	}},
	{"handoff", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
		r.inTurn(here, here, election)
	}},
	{"release to another process", func(r *replicated, here, there *multilock.Locker, election func() func()) {
		r.inTurn(here, there, election)
	}},
	{"resume and touch", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
		token, err := r.got(here.Acquire(r.Context(), flowers, "write")).Detach(r.Context())
		ok(r, err)
		healed := election()
		ok(r, here.Touch(r.Context(), flowers, token))
		lease := r.got(here.Resume(r.Context(), flowers, token))
		healed()
		r.wantEntries(lease)
		ok(r, lease.Release(r.Context()))
	}},
	{"claim", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		lease := r.got(here.Acquire(r.Context(), bson.M{}, "write", doclock.SkipLocked()))
		healed()
		time.Sleep(time.Minute) // the clean-up's
		n, err := r.coll.CountDocuments(r.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
		if n != 1 || err != nil {
			r.Errorf("the claim has %d documents, %v", n, err)
		}
		ok(r, lease.Release(r.Context()))
	}},
	{"DoAll", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
		healed := election()
		ok(r, multilock.DoAll(r.Context(), func(context.Context, multilock.Leases) error {
			healed()
			return nil
		}, here.Want(flowers, "write"), here.Want(doclock.ID(2), "write")))
	}},
	{"leases that are kept alive", func(r *replicated, here, _ *multilock.Locker, election func() func()) {
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
					onCluster(t, func(r *replicated) {
						_, err := r.coll.InsertOne(r.Context(), bson.M{"_id": 2})
						must(r, err)
						c.do(r, r.locker(), r.locker(), func() func() { return e.strike(r) })
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
	onCluster(t, func(r *replicated) {
		old := r.cluster.Primary()
		r.isolate()
		r.cluster.StepDown()
		time.Sleep(time.Second) // the clients hear of it
		_, err := r.coll.InsertOne(r.Context(), bson.M{"_id": 2})
		must(r, err)
		token, err := r.got(r.locker().Acquire(r.Context(), flowers, "write")).Detach(r.Context())
		must(r, err)

		client := r.cluster.Connect()
		members := append(r.cluster.Secondaries(), r.cluster.Primary())
		r.cluster.Cut(client, slices.DeleteFunc(members, func(m string) bool { return m == old })...)
		l, err := multilock.New(client.Database("test").Collection("documents"), relations.WritePreferring())
		must(r, err)
		defer r.rest(l)
		touch := begin(r, func() (bool, error) { return true, l.Touch(r.Context(), flowers, token) })
		resume := begin(r, func() (doclock.Lease, error) { return l.Resume(r.Context(), flowers, token) })
		acquire := begin(r, func() (doclock.Lease, error) { return l.Acquire(r.Context(), bson.M{"_id": 2}, "write") })
		time.Sleep(healing)
		r.cluster.Heal()
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
		onCluster(t, func(r *replicated) {
			old := r.cluster.Primary()
			r.isolate()
			r.cluster.StepDown()
			time.Sleep(time.Second) // the clients hear of it
			lease := r.got(r.locker().Acquire(r.Context(), flowers, "write"))
			lock, err := admin.Inspect(r.Context(), r.coll, flowers)
			must(r, err)
			client := r.cluster.Connect()
			r.cluster.Cut(client, slices.DeleteFunc(append(r.cluster.Secondaries(), r.cluster.Primary()), func(m string) bool { return m == old })...)
			broken := begin(r, func() (admin.Entry, error) {
				return admin.Break(r.Context(), client.Database("test").Collection("documents"), lock.Entries[0])
			})
			time.Sleep(healing)
			r.cluster.Heal()
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
	onCluster(t, func(r *replicated) {
		old, others := r.locker(), r.plain(relations.WritePreferring())
		r.cut()
		r.cluster.StepDown()
		time.Sleep(time.Second) // the others hear of it
		ctx := r.within(20 * time.Second)
		one, err := old.Acquire(ctx, flowers, "write", doclock.HoldAtLeast(time.Minute))
		if err == nil {
			other, err := others.TryAcquire(r.Context(), flowers, "write")
			if err == nil && one.Err() == nil && other.Err() == nil {
				r.Error("two leases are valid")
			}
		}
		r.cluster.Heal()
	})
}
