package multilock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const monitors = "the caller's monitor"

// panics is a collection of a client whose monitor panics at the next command with this
// comment, or any, before it is sent or after its answer.
func (p *place) panics() (coll *mongo.Collection, arm func(sent bool, comment string)) {
	p.Helper()
	var before, after atomic.Pointer[string]
	client := p.mem.Connect(options.Client().SetMonitor(&driver.CommandMonitor{
		Started: func(_ context.Context, e *driver.CommandStartedEvent) {
			comment, _ := e.Command.Lookup("comment").StringValueOK()
			if at := before.Load(); at != nil && strings.HasPrefix(comment, *at) && before.CompareAndSwap(at, nil) {
				panic(monitors)
			}
		},
		Succeeded: func(context.Context, *driver.CommandSucceededEvent) {
			if after.Swap(nil) != nil {
				panic(monitors)
			}
		},
	}))
	return client.Database(p.coll.Database().Name()).Collection(p.coll.Name()), func(sent bool, comment string) {
		if sent {
			after.Store(&comment)
		} else {
			before.Store(&comment)
		}
	}
}

// The caller can recover from a panic of his client's command monitor. The command is of
// unknown outcome: what it may have left is removed, and a lease that stands can be used.
// (That each call raises it, docs/verdicts.md shows.)
func TestAPanicInAMonitorIsTheCallers(t *testing.T) {
	virtual(t, func(p *place) {
		coll, arm := p.panics()
		l := p.locker(coll, relations.Fair(), doclock.ShareInProcess("read"))
		free := func() {
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
			time.Sleep(2 * calm) // no removal is owed any more, whose command could panic instead
		}
		for _, sent := range []bool{false, true} {
			panics := func(name string, call func()) {
				p.Helper()
				arm(sent, "")
				if got := recovered(call); got != monitors {
					p.Errorf("%s, sent: %v: recovered %v", name, sent, got)
				}
			}
			for name, ask := range asks {
				panics(name, func() { _, _ = ask(l, p.Context(), flowers, "write") })
				free()
			}

			lease := p.try(l, "write")
			waiter := acquire(p, p.Context(), l, "write")
			p.queued(l, 1)
			panics("Renew", func() { _ = lease.Renew(p.Context()) })
			panics("Update", func() { _ = lease.Update(p.Context(), plusOne) })
			ok(p, lease.Renew(p.Context()))
			ok(p, lease.Update(p.Context(), plusOne))
			panics("Release", func() { _ = lease.Release(p.Context()) })
			p.want(lease.Release(p.Context()), doclock.ErrOutcomeUnknown) // raised before
			p.release(p.granted(waiter))
			free()
			reader := p.try(l, "read") // and who joins its entry
			time.Sleep(time.Second)
			panics("TryAcquire of one who joins", func() { _, _ = l.TryAcquire(p.Context(), flowers, "read") })
			p.release(reader)
			free()
		}
	})
}

// A monitor's panic in a renewal or a clean-up is told by an event, and the work goes on.
func TestAPanicInAMonitorInTheBackground(t *testing.T) {
	virtual(t, func(p *place) {
		coll, arm := p.panics()
		heard, hear := p.heard()
		l := p.locker(coll, relations.Fair(), hear)
		told := func(kind doclock.EventKind) {
			p.Helper()
			all := heard.of(kind)
			if len(all) != 1 || !strings.Contains(all[0].Err.Error(), monitors) {
				p.Errorf("%s: %v", kind, all)
			}
		}

		lease := p.try(l, "write")
		kept := lease.KeepAlive(p.Context())
		arm(false, "doclock renew")
		time.Sleep(2 * calm)
		ok(p, kept.Err())
		told(doclock.EventRenewalFailed)
		p.release(lease)

		p.mem.LoseReplies(1, locktest.Acquires)
		arm(false, "doclock clean-up")
		p.want(errOf(l.TryAcquire(p.within(time.Millisecond), flowers, "write")), doclock.ErrNotAcquired)
		p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		told(doclock.EventCleanUpFailed)
	})
}
