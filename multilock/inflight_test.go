package multilock_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// crowd starts as many acquires of a document as may be under way, and cancels
// their callers.
func crowd(l *late, filter any, tag string) (replies []*faultnet.Fault) {
	l.Helper()
	for range multilock.MostPerDocument {
		reply := l.net.Arm(faultnet.DelayReply, "findAndModify")
		replies = append(replies, reply)
		ctx, cancel := context.WithCancel(l.Context())
		call := begin(l, func() (struct{}, error) {
			_, err := l.here.TryAcquire(ctx, filter, tag)
			return struct{}{}, err
		})
		wait(l, reply.Fired())
		cancel()
		_, err := call.wait()
		l.want(err, context.Canceled, doclock.ErrNotAcquired)
	}
	return replies
}

// While too many acquires of a document are under way, further acquires of it
// wait. If their context ends, they have sent nothing. Other documents and the
// leases are not affected.
func TestAcquiresBehindTheBoundWaitUnsent(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Semaphore(1))
	if _, err := l.coll.InsertOne(t.Context(), bson.M{"_id": 2}); err != nil {
		t.Fatal(err)
	}
	holder := l.try(l.here, "slot")
	ticket := l.enqueue(l.here, "slot")
	replies := crowd(l, flowers, "slot")
	l.watch.commands()
	for name, ask := range map[string]func(context.Context) error{
		"TryAcquire": func(ctx context.Context) error { return acquires["TryAcquire"](l.place, ctx, l.here, "slot") },
		"Enqueue":    func(ctx context.Context) error { return acquires["Enqueue"](l.place, ctx, l.here, "slot") },
		"Acquire":    func(ctx context.Context) error { return acquires["Acquire"](l.place, ctx, l.here, "slot") },
		"Confirm": func(ctx context.Context) error {
			_, err := ticket.Confirm(ctx)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := ask(ctx)
		cancel()
		l.want(err, context.DeadlineExceeded)
		l.wantNot(err, doclock.ErrOutcomeUnknown)
		if sent := l.watch.commands(); len(sent) != 0 {
			t.Errorf("%s sent %v", name, sent)
		}
	}
	if lease, err := l.here.TryAcquire(l.bounded(), bson.M{"_id": 2}, "slot"); err != nil {
		t.Errorf("another document: %v", err)
	} else if err := lease.Release(l.bounded()); err != nil {
		t.Errorf("its release: %v", err)
	}
	if err := holder.Renew(l.bounded()); err != nil {
		t.Errorf("the holder's renewal: %v", err)
	}
	l.release(holder)
	for _, reply := range replies {
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ticket.Cancel(l.bounded()); err != nil {
		t.Error(err)
	}
	l.rest(l.here)
	l.wantEntries()
}

// The acquires of one Locker leave connections in the driver's pool for its
// leases.
func TestAcquiresOfManyDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Exclusive())
	holder := l.try(l.here, "write")
	var replies []*faultnet.Fault
	const first, last = 2, 1 + multilock.MostPerLocker/multilock.MostPerDocument
	for id := first; id <= last+1; id++ {
		if _, err := l.coll.InsertOne(t.Context(), bson.M{"_id": id}); err != nil {
			t.Fatal(err)
		}
	}
	for id := first; id <= last; id++ {
		replies = append(replies, crowd(l, bson.M{"_id": id}, "write")...)
	}
	l.watch.commands()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := l.here.TryAcquire(ctx, bson.M{"_id": last + 1}, "write")
	l.want(err, context.DeadlineExceeded)
	l.wantNot(err, doclock.ErrOutcomeUnknown)
	if sent := l.watch.commands(); len(sent) != 0 {
		t.Errorf("it sent %v", sent)
	}
	if err := holder.Renew(l.bounded()); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	l.release(holder)
	for _, reply := range replies {
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
	}
}

// Close wakes the callers that have sent nothing. It doesn't wait for the
// commands ahead of theirs.
func TestCloseWakesAcquiresBehindTheBound(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Exclusive(), doclock.AttemptTimeout(time.Minute)) // so that none of the commands ends
	replies := crowd(l, flowers, "write")
	var calls []*pending[*doclock.Lease]
	for range 3 {
		calls = append(calls, begin(t, func() (*doclock.Lease, error) { return l.here.TryAcquire(l.bounded(), flowers, "write") }))
	}
	l.eventually("they wait behind the bound", func() bool { return l.here.BehindTheBound(1) == len(calls) })
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	l.want(l.here.Close(short), context.DeadlineExceeded)
	for _, call := range calls {
		_, err := call.wait()
		l.want(err, doclock.ErrClosed)
	}
	for _, reply := range replies {
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
	}
	l.rest(l.here)
	l.wantEntries()
}

// A waiter whose caller has left stays in the wait queue until its command has
// ended and the entry of that command is removed. The next waiter doesn't ask in
// the meantime.
func TestAWaiterWhoseCommandIsOutStaysInTheQueue(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Fair())
	holder := l.try(l.there, "read")
	arrival := l.net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	first := acquire(t, ctx, l.here, "write")
	wait(t, arrival.Fired())
	removal := l.net.ArmWhere(faultnet.DelayReply, func(_ string, body bson.Raw) bool {
		_, err := body.LookupErr("update", "$pull")
		return err == nil
	})
	cancel()
	_, err := first.wait()
	l.want(err, context.Canceled, doclock.ErrNotAcquired)
	second := acquire(t, l.bounded(), l.here, "write")
	l.queued(l.here, 1)
	if n := l.watch.count(); n != 1 {
		t.Errorf("%d commands beside the one that is under way", n-1)
	}
	if err := arrival.Let(); err != nil {
		t.Fatal(err)
	}
	wait(t, removal.Fired())
	if n := l.watch.count(); n != 2 || l.here.Waiters(1) != 1 {
		t.Errorf("%d commands beside the removal", n-2)
	}
	if err := removal.Let(); err != nil {
		t.Fatal(err)
	}
	l.release(holder)
	l.release(l.granted(second))
	l.wantEntries()
}

// stormers is the number of callers of a storm. They have little time for each
// acquire.
const (
	stormers   = 100
	stormTime  = 2 * time.Second
	shortest   = time.Millisecond
	longest    = 20 * time.Millisecond
	stormedTTL = 3 * time.Second
)

// Many callers with short deadlines want a document that another process holds.
// The document, the commands and the goroutines stay within bounds, the holder
// keeps its lease, and no entry stays behind.
func TestAStormOfCallersWhoGiveUp(t *testing.T) { // alone: it counts goroutines
	for name, c := range map[string]struct {
		rules  relations.Rules
		tag    string
		filter any
		ask    func(ctx context.Context, l *multilock.Locker, filter any, tag string)
	}{
		"Acquire, semaphore":    {relations.Semaphore(1), "slot", flowers, stormAcquire},
		"Acquire, by its name":  {relations.Fair(), "write", byName, stormAcquire},
		"TryAcquire, semaphore": {relations.Semaphore(1), "slot", flowers, stormTry},
		"Enqueue, semaphore":    {relations.Semaphore(1), "slot", flowers, stormEnqueue},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			holder := p.try(p.locker(p.via(options.Client()), c.rules, doclock.TTL(stormedTTL)), c.tag)
			kept := holder.KeepAlive(t.Context())
			coll, w := p.watched()
			l := p.locker(coll, c.rules)
			ctx, cancel := context.WithTimeout(t.Context(), stormTime)
			defer cancel()
			before := runtime.NumGoroutine()
			var callers sync.WaitGroup
			for range stormers {
				callers.Go(func() {
					for ctx.Err() == nil {
						short, stop := context.WithTimeout(ctx, shortest+rand.N(longest))
						c.ask(short, l, c.filter, c.tag)
						stop()
					}
				})
			}
			most, running := 0, 0
			for ctx.Err() == nil {
				most, running = max(most, len(p.entries())), max(running, runtime.NumGoroutine()-before)
				time.Sleep(10 * time.Millisecond)
			}
			callers.Wait()
			p.rest(l)
			if err := context.Cause(kept); err != nil {
				t.Errorf("the holder: %v", err)
			}
			t.Logf("at most %d entries, %d goroutines; %d commands", most, running, w.count())
			if most > 1+2*multilock.MostPerDocument {
				t.Errorf("%d entries", most)
			}
			if running > 3*stormers { // the callers, the driver's, and the commands of callers that left
				t.Errorf("%d goroutines", running)
			}
			p.wantEntries(holder)
			p.release(holder)
		})
	}
}

func stormAcquire(ctx context.Context, l *multilock.Locker, filter any, tag string) {
	if lease, err := l.Acquire(ctx, filter, tag); err == nil {
		_ = lease.Release(ctx)
	}
}

func stormTry(ctx context.Context, l *multilock.Locker, filter any, tag string) {
	if lease, err := l.TryAcquire(ctx, filter, tag); err == nil {
		_ = lease.Release(ctx)
	}
}

func stormEnqueue(ctx context.Context, l *multilock.Locker, filter any, tag string) {
	if ticket, err := l.Enqueue(ctx, filter, tag); err == nil {
		_ = ticket.Cancel(ctx)
	}
}
