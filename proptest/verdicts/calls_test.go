package verdicts

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// failure is what happens from the begin of the call on, or in the time
// before it.
type failure struct {
	name string
	arm  func(*world)
}

// call is what a program calls. Its begin is what the caller has before, or nil.
type call struct {
	name   string
	begin  func(*world)
	send   func(*world) error
	inside bool              // the failure comes inside its function, and not before it
	opts   []locktest.Option // of the server
}

// got is the error of a call that returns something.
func got[T any](_ T, err error) error { return err }

const soon, late = 3 * time.Second, 45 * time.Second // less than a TTL, and more

// common are the failures that any command can meet.
var common = []failure{
	{"nothing fails", func(*world) {}},
	{"away briefly", func(w *world) { w.away(soon); synctest.Wait() }},
	{"away long", func(w *world) { w.away(late); synctest.Wait() }},
	{"reply lost", func(w *world) { w.broken(w.mem.LoseReplies, 0) }},
	{"reply lost, away long", func(w *world) { w.broken(w.mem.LoseReplies, late) }},
	{"request lost, away long", func(w *world) { w.broken(w.mem.LoseRequests, late) }},
	{"refused", func(w *world) { w.refuse(1000, 13) }},
	{"fail-over", func(w *world) { w.refuse(4, 10107) }},
	{"overloaded", func(w *world) { w.refuse(6, 462, "SystemOverloadedError", "RetryableError") }}, // the driver's repeats included
	{"ctx ends", func(w *world) {
		w.mem.Delay(1, 2*time.Second, w.kinds()...)
		w.limit(time.Second)
	}},
	{"the monitor panics", func(w *world) { w.panics.Store(true) }},
}

var ofAcquires = append(slices.Clip(common), failure{"held by another", func(w *world) {
	w.rival()
	<-w.letIn
	w.limit(late)
}})

var ofEntries = append(slices.Clip(common), failure{"the entry is gone", (*world).erase})

var ofLeases = append(slices.Clip(common),
	failure{"away, expired before", func(w *world) { w.away(late); w.passed() }},
	failure{"refused, expired before", func(w *world) { time.Sleep(ttl); w.relied = time.Now(); w.refuse(1000, 13) }},
	failure{"lost before", func(w *world) {
		w.must(w.mem.Lose(w.held()))
		w.passed()
	}},
)

// ofFunctions are those of calls that hold a lock around a function.
var ofFunctions = []failure{
	{"nothing fails", func(*world) {}},
	{"fn fails", func(w *world) { w.returned = errOwn }},
	{"fn returns an `ErrLost`", func(w *world) { w.returned = doclock.ErrLost }},
	{"an `ErrNotAcquired`", func(w *world) { w.returned = doclock.ErrNotAcquired }},
	{"an `ErrOutcomeUnknown`", func(w *world) { w.returned = doclock.ErrOutcomeUnknown }},
	{"away briefly in fn", func(w *world) { w.away(soon); time.Sleep(2 * ttl) }},
	{"away long in fn", func(w *world) { w.away(late); time.Sleep(2 * late) }},
	{"away beyond fn's end", func(w *world) { w.away(2 * time.Minute); time.Sleep(late) }},
	{"away, fn returns ctx's error", func(w *world) { w.away(late); <-w.inner.Done(); w.returned = w.inner.Err() }},
	{"the cause", func(w *world) { w.away(late); <-w.inner.Done(); w.returned = context.Cause(w.inner) }},
	{nobodyWants, func(w *world) { w.away(2 * ttl); time.Sleep(3 * ttl) }},
	{"away briefly at the release", func(w *world) { w.away(soon); synctest.Wait() }},
	{"away long at the release", func(w *world) { w.away(late); synctest.Wait() }},
	{"its reply lost", func(w *world) { w.broken(w.mem.LoseReplies, 0) }},
	{"its reply lost, away long", func(w *world) { w.broken(w.mem.LoseReplies, late) }},
	{"release refused", func(w *world) { w.refuse(1000, 13) }},
	{"renewals and release refused", func(w *world) { w.refuse(100_000, 13); time.Sleep(late) }},
	{"fail-over", func(w *world) { w.refuse(4, 10107) }},
	{"overloaded", func(w *world) { w.refuse(6, 462, "SystemOverloadedError", "RetryableError") }}, // the driver's repeats included
	{"lost in fn", func(w *world) { w.must(w.mem.Lose(w.lease)); time.Sleep(ttl) }},
	{"lost, fn fails", func(w *world) { w.must(w.mem.Lose(w.lease)); time.Sleep(ttl); w.returned = errOwn }},
	{"lost at fn's end", func(w *world) { w.must(w.mem.Lose(w.lease)); <-w.letIn; time.Sleep(time.Millisecond) }},
	{"the monitor panics at the release", func(w *world) { w.panics.Store(true) }},
	{"ctx ends in fn", func(w *world) { w.end(); w.returned = context.Cause(w.inner) }},
}

// keepAlive is the call whose context is looked at a minute later.
const keepAlive = "KeepAlive"

// nobodyWants is the failure without a rival.
const nobodyWants = "away 20 s, nobody wants the lock"

var (
	one       = doclock.ID(1)
	first     = bson.M{"_id": bson.M{"$lt": 2}} // the same, for claims
	increment = bson.M{"$inc": bson.M{"count": 1}}
)

var acquires = []call{
	{name: "TryAcquire", send: func(w *world) error { return got(w.locks.TryAcquire(w.ctx, one, "write")) }},
	{name: "TryAcquire(TakeOver)", begin: (*world).acquireAlone, send: func(w *world) error {
		return got(w.locks.TryAcquire(w.ctx, one, "write", doclock.TakeOver(doclock.Holder{ID: w.lease.ID(), Fence: w.lease.Fence()})))
	}},
	{name: "Acquire", send: func(w *world) error { return got(w.locks.Acquire(w.ctx, one, "write")) }},
	{name: "Acquire(MaxWait)", send: func(w *world) error {
		return got(w.locks.Acquire(w.ctx, one, "write", doclock.MaxWait(20*time.Second)))
	}},
	{name: "TryAcquire(SkipLocked)", send: func(w *world) error { return got(w.locks.TryAcquire(w.ctx, first, "write", doclock.SkipLocked())) }},
	{name: "Acquire(SkipLocked)", send: func(w *world) error { return got(w.locks.Acquire(w.ctx, first, "write", doclock.SkipLocked())) }},
	{name: "Acquire(SkipLocked+MaxWait)", send: func(w *world) error {
		return got(w.locks.Acquire(w.ctx, first, "write", doclock.SkipLocked(), doclock.MaxWait(20*time.Second)))
	}},
	{name: "AcquireBatch", send: func(w *world) error { return got(w.locks.AcquireBatch(w.ctx, first, "write", 2)) }},
	{name: "AcquireBatch(MaxWait)", send: func(w *world) error { return got(w.locks.AcquireBatch(w.ctx, first, "write", 2, doclock.MaxWait(0))) }},
	{name: "AcquireAll", send: func(w *world) error { return got(multilock.AcquireAll(w.ctx, w.both()...)) }},
	{name: "Do before fn", send: func(w *world) error { return w.locks.Do(w.ctx, one, "write", w.runs) }},
	{name: "DoAll before fn", send: func(w *world) error {
		return multilock.DoAll(w.ctx, func(ctx context.Context, leases multilock.Leases) error { return w.runs(ctx, leases[0]) }, w.both()...)
	}},
	{name: "Lead before fn", send: func(w *world) error { return w.leaders.Lead(w.ctx, one, w.runs) }},
	{name: "Enqueue", send: func(w *world) error { return got(w.locks.Enqueue(w.ctx, one, "write")) }},
}

var ofTickets = []call{
	{name: "Confirm", begin: (*world).enqueue, send: func(w *world) error { return got(w.ticket.Confirm(w.ctx)) }},
	{name: "Wait", begin: (*world).enqueue, send: func(w *world) error { return got(w.ticket.Wait(w.ctx)) }},
	{name: "Cancel", begin: (*world).enqueue, send: func(w *world) error { return w.ticket.Cancel(w.ctx) }},
	{name: "Resume", begin: (*world).detach, send: func(w *world) error { return got(w.locks.Resume(w.ctx, one, w.token)) }},
	{name: "Touch", begin: (*world).detach, send: func(w *world) error { return w.locks.Touch(w.ctx, one, w.token) }},
}

var members = []locktest.Option{locktest.ReplicaSet()}

var underLeases = []call{
	{name: "Renew", begin: (*world).acquire, send: func(w *world) error { return w.lease.Renew(w.ctx) }},
	{name: keepAlive, begin: (*world).acquire, send: func(w *world) error {
		kept := w.lease.KeepAlive(w.ctx)
		time.Sleep(time.Minute)
		return context.Cause(kept)
	}},
	{name: "Update", begin: (*world).acquire, send: func(w *world) error { return w.lease.Update(w.ctx, increment) }},
	{name: "UpdateAndRelease", begin: (*world).acquire, send: func(w *world) error { return w.lease.UpdateAndRelease(w.ctx, increment) }},
	{name: "UpdateAndRelease+Release", begin: (*world).acquire, send: func(w *world) error {
		_ = w.lease.UpdateAndRelease(w.ctx, increment)
		return w.lease.Release(context.WithoutCancel(w.ctx))
	}},
	{name: "WithTransaction", opts: members, begin: (*world).begin, send: func(w *world) error { return w.transact(w.lease.WithTransaction) }},
	{name: "Leases.WithTransaction", opts: members, begin: (*world).beginAll, send: func(w *world) error { return w.transact(w.leases.WithTransaction) }},
	{name: "Delete", begin: (*world).acquire, send: func(w *world) error { return w.lease.Delete(w.ctx) }},
	{name: "Detach", begin: (*world).acquire, send: func(w *world) error { return got(w.lease.Detach(w.ctx)) }},
	{name: "Convert", begin: (*world).acquireAlone, send: func(w *world) error { return got(w.lease.Convert(w.ctx, "read")) }},
	{name: "Convert+Release", begin: (*world).acquireAlone, send: func(w *world) error {
		_, _ = w.lease.Convert(w.ctx, "read")
		return w.lease.Release(context.WithoutCancel(w.ctx))
	}},
	{name: "Release", begin: (*world).acquire, send: func(w *world) error { return w.lease.Release(w.ctx) }},
	{name: "Release+Release", begin: (*world).acquire, send: func(w *world) error {
		_ = w.lease.Release(w.ctx)
		time.Sleep(time.Minute)
		w.mem.Fail(0, mongo.CommandError{})
		return w.lease.Release(context.WithoutCancel(w.ctx))
	}},
	{name: "Leases.Release", begin: (*world).acquireAll, send: func(w *world) error { return w.leases.Release(w.ctx) }},
	{name: "Leases.Renew", begin: (*world).acquireAll, send: func(w *world) error { return w.leases.Renew(w.ctx) }},
	{name: "Locker.Close", begin: (*world).acquire, send: func(w *world) error { return fixture.Rested(w.locks.Close(w.ctx)) }},
}

// byOperators judge nobody's lease, and ask for no lock.
var byOperators = []call{
	{name: "Inspect", begin: (*world).operate, send: func(w *world) error {
		lock, err := admin.Inspect(w.ctx, w.ours, one)
		if err == nil && len(lock.Entries) != 1 {
			w.Errorf("it has read %v", lock)
		}
		return err
	}},
	{name: "Entries", begin: (*world).operate, send: func(w *world) (last error) {
		n := 0
		for _, err := range admin.Entries(w.ctx, w.ours, admin.Query{}) {
			if last = err; err == nil {
				n++
			}
		}
		if last == nil && n != 1 {
			w.Errorf("it has read %d entries", n)
		}
		return last
	}},
	{name: "EnsureIndexes", begin: (*world).operate, send: func(w *world) error { return got(admin.EnsureIndexes(w.ctx, w.ours, []string{"write"})) }},
	{name: "Break", begin: (*world).operate, send: func(w *world) error { return got(admin.Break(w.ctx, w.ours, w.theirs)) }},
	{name: "Remove", begin: (*world).operate, send: removes},
	{name: "Remove's removal", begin: func(w *world) { w.operate(); w.operates = false }, send: removes},
	{name: "Sweep", begin: (*world).operate, send: func(w *world) error { return got(admin.Sweep(w.ctx, w.ours, admin.DeleteIdle(time.Hour))) }},
	{name: "CheckServer", begin: (*world).operate, send: func(w *world) error { return got(doclock.CheckServer(w.ctx, w.ours)) }},
}

func removes(w *world) error {
	n, err := admin.Remove(w.ctx, w.ours, admin.Query{Tags: []string{"write"}})
	if err == nil && n.Removed != 1 {
		w.Errorf("it has removed %v", n)
	}
	return err
}

// functions meet the failure while they hold the lock.
var functions = []call{
	{name: "Do", inside: true, send: func(w *world) error { return w.locks.Do(w.ctx, one, "write", w.fails) }},
	{name: "DoAll", inside: true, send: func(w *world) error {
		return multilock.DoAll(w.ctx, func(ctx context.Context, leases multilock.Leases) error { return w.fails(ctx, leases[0]) }, w.both()...)
	}},
	{name: "Lead", inside: true, send: func(w *world) error { return w.leaders.Lead(w.ctx, one, w.fails) }},
}
