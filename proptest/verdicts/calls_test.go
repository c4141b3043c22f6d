package verdicts

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// failure is a column: what happens from the begin of the call on, or in the time
// before it.
type failure struct {
	name string
	arm  func(*world)
}

// call is a row. Its begin is what the caller has before.
type call struct {
	name  string
	begin func(*world)
	send  func(*world) error
}

const soon, late = 3 * time.Second, 45 * time.Second // less than a TTL, and more

// common are the failures that any command can meet.
var common = []failure{
	{"nothing fails", func(*world) {}},
	{"away, back before the TTL is over", func(w *world) { w.away(soon) }},
	{"away, back later", func(w *world) { w.away(late) }},
	{"reply lost", func(w *world) { w.broken(w.mem.LoseReplies, 0) }},
	{"reply lost, away, back later", func(w *world) { w.broken(w.mem.LoseReplies, late) }},
	{"request lost, away, back later", func(w *world) { w.broken(w.mem.LoseRequests, late) }},
	{"refused", func(w *world) { w.refuse(1000, 13) }},
	{"fail-over", func(w *world) { w.refuse(4, 10107) }},
	{"overloaded", func(w *world) { w.refuse(6, 462, "SystemOverloadedError", "RetryableError") }}, // the driver's repeats included
	{"ctx ends during the command", func(w *world) {
		w.mem.Delay(1, 2*time.Second, w.kinds()...)
		w.limit(time.Second)
	}},
}

// ofAcquires are those of calls that ask for a lock.
var ofAcquires = append(common[:len(common):len(common)], failure{"held by another", func(w *world) {
	w.rival()
	<-w.letIn
	w.limit(late)
}})

// ofEntries are those of calls for a ticket or a token.
var ofEntries = append(common[:len(common):len(common)], failure{"the entry is gone", (*world).erase})

// ofLeases are those of calls under a lease.
var ofLeases = append(common[:len(common):len(common)],
	failure{"away, the time is up before the call", func(w *world) { w.away(late); w.passed() }},
	failure{"refused, the time is up before the call", func(w *world) { time.Sleep(ttl); w.relied = time.Now(); w.refuse(1000, 13) }},
	failure{"the lock is lost before the call", func(w *world) {
		w.must(w.mem.Lose(w.held()))
		w.passed()
	}},
)

// ofFunctions are those of calls that hold a lock around a function.
var ofFunctions = []failure{
	{"nothing fails", func(*world) {}},
	{"fn fails", func(w *world) { w.returned = errOwn }},
	{"fn returns another lock's `ErrLost`", func(w *world) { w.returned = doclock.ErrLost }},
	{"fn returns another lock's `ErrNotAcquired`", func(w *world) { w.returned = doclock.ErrNotAcquired }},
	{"fn returns a write's `ErrOutcomeUnknown`", func(w *world) { w.returned = doclock.ErrOutcomeUnknown }},
	{"away while fn works, back before the TTL is over", func(w *world) { w.away(soon); time.Sleep(2 * ttl) }},
	{"away while fn works, back later, before fn's end", func(w *world) { w.away(late); time.Sleep(2 * late) }},
	{"away while fn works, and after it", func(w *world) { w.away(10 * time.Minute); time.Sleep(late) }},
	{"away, and fn returns ctx's error", func(w *world) { w.away(late); <-w.inner.Done(); w.returned = w.inner.Err() }},
	{"away, and fn returns the cause", func(w *world) { w.away(late); <-w.inner.Done(); w.returned = context.Cause(w.inner) }},
	{nobodyWants, func(w *world) { w.away(2 * ttl); time.Sleep(3 * ttl) }},
	{"away during the release, back before the TTL is over", func(w *world) { w.away(soon) }},
	{"away during the release, back later", func(w *world) { w.away(late) }},
	{"the release's reply is lost", func(w *world) { w.broken(w.mem.LoseReplies, 0) }},
	{"the release's reply is lost, away, back later", func(w *world) { w.broken(w.mem.LoseReplies, late) }},
	{"the release is refused", func(w *world) { w.refuse(1000, 13) }},
	{"renewals and the release are refused", func(w *world) { w.refuse(100_000, 13); time.Sleep(late) }},
	{"fail-over", func(w *world) { w.refuse(4, 10107) }},
	{"overloaded", func(w *world) { w.refuse(6, 462, "SystemOverloadedError", "RetryableError") }}, // the driver's repeats included
	{"the lock is lost while fn works", func(w *world) { w.must(w.mem.Lose(w.lease)); time.Sleep(ttl) }},
	{"lost, and fn fails", func(w *world) { w.must(w.mem.Lose(w.lease)); time.Sleep(ttl); w.returned = errOwn }},
	{"lost just before fn's end", func(w *world) { w.must(w.mem.Lose(w.lease)); <-w.letIn; time.Sleep(time.Millisecond) }},
	{"ctx ends while fn works", func(w *world) { w.end(); w.returned = context.Cause(w.inner) }},
}

// nobodyWants is the failure without a rival.
const nobodyWants = "away for longer than the TTL, and nobody wants the lock"

func nothing(*world) {}

var increment = bson.M{"$inc": bson.M{"count": 1}}

var acquires = []call{
	{"TryAcquire", nothing, func(w *world) error { _, err := w.locks.TryAcquire(w.ctx, doclock.ID(1), "write"); return err }},
	{"Acquire", nothing, func(w *world) error { _, err := w.locks.Acquire(w.ctx, doclock.ID(1), "write"); return err }},
	{"Acquire, MaxWait(20s)", nothing, func(w *world) error {
		_, err := w.locks.Acquire(w.ctx, doclock.ID(1), "write", doclock.MaxWait(20*time.Second))
		return err
	}},
	{"AcquireAll", nothing, func(w *world) error {
		_, err := multilock.AcquireAll(w.ctx, w.locks.Want(doclock.ID(1), "write"), w.locks.Want(doclock.ID(2), "write"))
		return err
	}},
	{"Do, before fn", nothing, func(w *world) error {
		return w.locks.Do(w.ctx, doclock.ID(1), "write", func(context.Context, *doclock.Lease) error { w.ran = true; return nil })
	}},
	{"DoAll, before fn", nothing, func(w *world) error {
		return multilock.DoAll(w.ctx, func(context.Context, multilock.Leases) error { w.ran = true; return nil },
			w.locks.Want(doclock.ID(1), "write"), w.locks.Want(doclock.ID(2), "write"))
	}},
	{"Lead, before fn", nothing, func(w *world) error {
		return w.leaders.Lead(w.ctx, doclock.ID(1), func(context.Context, *doclock.Lease) error { w.ran = true; return nil })
	}},
	{"Enqueue", nothing, func(w *world) error { _, err := w.locks.Enqueue(w.ctx, doclock.ID(1), "write"); return err }},
}

var ofTickets = []call{
	{"Confirm", (*world).enqueue, func(w *world) error { _, err := w.ticket.Confirm(w.ctx); return err }},
	{"Wait", (*world).enqueue, func(w *world) error { _, err := w.ticket.Wait(w.ctx); return err }},
	{"Cancel", (*world).enqueue, func(w *world) error { return w.ticket.Cancel(w.ctx) }},
	{"Resume", (*world).detach, func(w *world) error { _, err := w.locks.Resume(w.ctx, w.token); return err }},
	{"Touch", (*world).detach, func(w *world) error { return w.locks.Touch(w.ctx, w.token) }},
}

var underLeases = []call{
	{"Renew", (*world).acquire, func(w *world) error { return w.lease.Renew(w.ctx) }},
	{"context of KeepAlive, after a minute", (*world).acquire, func(w *world) error {
		kept := w.lease.KeepAlive(w.ctx)
		time.Sleep(time.Minute)
		return context.Cause(kept)
	}},
	{"Update", (*world).acquire, func(w *world) error { return w.lease.Update(w.ctx, increment) }},
	{"UpdateAndRelease", (*world).acquire, func(w *world) error { return w.lease.UpdateAndRelease(w.ctx, increment) }},
	{"Release after UpdateAndRelease", (*world).acquire, func(w *world) error {
		_ = w.lease.UpdateAndRelease(w.ctx, increment)
		return w.lease.Release(context.WithoutCancel(w.ctx))
	}},
	{"Delete", (*world).acquire, func(w *world) error { return w.lease.Delete(w.ctx) }},
	{"Detach", (*world).acquire, func(w *world) error { _, err := w.lease.Detach(w.ctx); return err }},
	{"Downgrade", (*world).acquireAlone, func(w *world) error { _, err := w.lease.Downgrade(w.ctx, "read"); return err }},
	{"Release after Downgrade", (*world).acquireAlone, func(w *world) error {
		_, _ = w.lease.Downgrade(w.ctx, "read")
		return w.lease.Release(context.WithoutCancel(w.ctx))
	}},
	{"Release", (*world).acquire, func(w *world) error { return w.lease.Release(w.ctx) }},
	{"Release, called again a minute later", (*world).acquire, func(w *world) error {
		_ = w.lease.Release(w.ctx)
		time.Sleep(time.Minute)
		w.mem.Fail(0, mongo.CommandError{})
		return w.lease.Release(context.WithoutCancel(w.ctx))
	}},
	{"Leases.Release", (*world).acquireAll, func(w *world) error { return w.leases.Release(w.ctx) }},
	{"Locker.Close", (*world).acquire, func(w *world) error { return w.locks.Close(w.ctx) }},
}

// functions arm the failure in the function.
func functions(arm func(*world)) []call {
	fn := func(w *world, ctx context.Context, lease *doclock.Lease) error {
		if w.ran { // Lead has campaigned again
			return nil
		}
		w.ran, w.lease, w.inner = true, lease, ctx
		arm(w)
		w.relied = time.Now()
		return w.returned
	}
	single := func(w *world) func(context.Context, *doclock.Lease) error {
		return func(ctx context.Context, lease *doclock.Lease) error {
			if !w.ran && !w.alone {
				w.rival()
			}
			return fn(w, ctx, lease)
		}
	}
	return []call{
		{"Do", nothing, func(w *world) error { return w.locks.Do(w.ctx, doclock.ID(1), "write", single(w)) }},
		{"DoAll", nothing, func(w *world) error {
			return multilock.DoAll(w.ctx, func(ctx context.Context, leases multilock.Leases) error { return single(w)(ctx, leases[0]) },
				w.locks.Want(doclock.ID(1), "write"), w.locks.Want(doclock.ID(2), "write"))
		}},
		{"Lead", nothing, func(w *world) error { return w.leaders.Lead(w.ctx, doclock.ID(1), single(w)) }},
	}
}
