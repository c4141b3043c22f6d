package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// driverError is the driver's part of an error.
func driverError(err error) error {
	var command mongo.CommandError
	if errors.As(err, &command) {
		return command
	}
	var exception mongo.WriteException
	if errors.As(err, &exception) {
		return exception
	}
	return nil
}

// unauthorized is a server's refusal.
var unauthorized = bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not authorized"}

// unreplicated adds a write-concern error to a real reply: no majority has
// acknowledged the write.
func unreplicated(reply bson.Raw) any {
	var d bson.D
	if err := bson.Unmarshal(reply, &d); err != nil {
		panic(err)
	}
	return append(d, bson.E{Key: "writeConcernError", Value: bson.M{"code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": "not enough data-bearing nodes"}})
}

// After a write-concern error the write may be rolled back. If every answer has one, the
// outcome is unknown: the entry is released, and the acquire returns neither a lease nor a conflict.
func TestWriteConcernErrorThatStays(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Fair())
		for name, filter := range map[string]any{"repeated": flowers, "sent once": byName} {
			for _, held := range []bool{false, true} {
				var others []doclock.Lease
				if held {
					others = append(others, p.try(l, "read"))
				}
				for range 100 {
					net.ArmRewrite(faultnet.Rewrite, "findAndModify", unreplicated)
				}
				ctx, cancel := context.WithTimeout(p.Context(), 300*time.Millisecond)
				lease, err := l.TryAcquire(ctx, filter, "write")
				cancel()
				net.Disarm()
				p.want(err, doclock.ErrNotAcquired)
				p.wantNot(err, doclock.ErrConflict)
				var exception mongo.WriteException
				if lease != nil || name == "sent once" && (!errors.As(err, &exception) || exception.WriteConcernError == nil || exception.WriteConcernError.Code != 100) {
					p.Errorf("%s: lease %v, error %v", name, lease, err)
				}
				p.eventually("the entry is released", func() bool { return len(p.entries()) == len(others) })
				p.wantEntries(others...)
				for _, lease := range others {
					p.release(lease)
				}
			}
		}
	})
}

// An error reply without labels is the server's statement that nothing was done. The error is
// returned as it came, with what it means. So is what stands in the lock's field and is no lock;
// internal/engine has the kinds. Nothing is changed, and another field can have the lock.
func TestServersRefusalIsCertain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	for name, ask := range asks {
		net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
			return bson.M{"ok": 0, "code": 17276, "errmsg": "Use of undefined variable: NOW"}
		})
		p.Change(bson.M{"$set": bson.M{"lock": "locked by ann"}})
		before := p.Stored()
		for _, refusal := range []fault{{doclock.ErrUnsupportedServer, []string{"Use of undefined variable: NOW"}}, {doclock.ErrForeignLock, []string{`"lock"`}}} {
			err := errOf(ask(l, t.Context(), flowers, "write"))
			p.wantVerdict(name, err, doclock.ErrNotAcquired)
			refusal.check(t, name, err)
			p.wantNot(err, doclock.ErrConflict)
		}
		p.release(p.try(p.locker(p.coll, relations.Exclusive(), doclock.Field("mutex")), "write"))
		p.Change(bson.M{"$unset": bson.M{"mutex": 1}})
		p.wantDocument("the document", p.Stored(), before)
	}
}

// A confirm that the server refuses leaves the ticket in its place, and ends a waiting
// Acquire, which removes its entry.
func TestServersRefusalOfAConfirm(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Fair())
		refuse := func() {
			net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return unauthorized })
		}
		holder := p.try(p.locker(p.coll, relations.Fair()), "read")
		call := acquire(p, p.bounded(), l, "write")
		p.waiting("write")
		refuse()
		_, err := call.wait()
		p.wantVerdict("Acquire", err, doclock.ErrNotAcquired)
		p.eventually("its entry is removed", func() bool { return len(p.entries()) == 1 })

		ticket := p.enqueue(l, "write")
		p.release(holder)
		refuse()
		_, err = ticket.Confirm(p.Context())
		p.wantVerdict("Confirm", err, doclock.ErrNotAcquired)
		if driverError(err) == nil {
			p.Errorf("the driver's error is not in %v", err)
		}
		p.wantEntries(p.got(ticket.Confirm(p.Context())))
	})
}

// In an errgroup the error of one call ends the context of the others. They end, and
// their errors don't have its meaning.
func TestTheContextEndsWithTheErrorOfAnotherCall(t *testing.T) {
	t.Parallel()
	failure := engine.AsFailure(errors.New("no server"))
	failure.Nothing = true // an outage
	for _, cause := range []error{
		&doclock.ConflictError{Tag: "read"}, doclock.ErrNotFound, doclock.ErrNotAcquired, doclock.ErrOutcomeUnknown,
		doclock.ErrLost, doclock.ErrReleased, doclock.ErrClosed, doclock.ErrInvalidArgument,
		fmt.Errorf("doclock: renew: %w", failure),
	} {
		virtually(t, fmt.Sprintf("%.40v", cause), func(p *place) {
			l, others := p.plain(relations.Fair()), p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour))
			p.try(others, "write")
			var ticket *multilock.Ticket
			for name, call := range map[string]func(context.Context) error{
				"Acquire":             func(ctx context.Context) error { return errOf(l.Acquire(ctx, flowers, "write")) },
				"Acquire, any":        func(ctx context.Context) error { return errOf(l.Acquire(ctx, byName, "write")) },
				"Acquire, SkipLocked": func(ctx context.Context) error { return errOf(l.Acquire(ctx, byName, "write", doclock.SkipLocked())) },
				"AcquireAll":          func(ctx context.Context) error { return errOf(multilock.AcquireAll(ctx, l.Want(flowers, "write"))) },
				"Wait":                func(ctx context.Context) error { return errOf(ticket.Wait(ctx)) },
				"TryAcquire, sent": func(ctx context.Context) error {
					p.mem.Delay(1, time.Minute, locktest.Acquires)
					return errOf(l.TryAcquire(ctx, flowers, "write"))
				},
				"Confirm, ended":    func(ctx context.Context) error { <-ctx.Done(); return errOf(ticket.Confirm(ctx)) },
				"TryAcquire, ended": func(ctx context.Context) error { <-ctx.Done(); return errOf(l.TryAcquire(ctx, flowers, "write")) },
				"Acquire with MaxWait": func(ctx context.Context) error {
					return errOf(l.Acquire(ctx, flowers, "write", doclock.MaxWait(time.Hour)))
				},
			} {
				var err error
				ticket, err = l.Enqueue(p.Context(), flowers, "write")
				must(p, err)
				ctx, cancel := context.WithCancelCause(p.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				begun := time.Now()
				err = call(ctx)
				if took := time.Since(begun); took != time.Second {
					p.Errorf("%s returned after %v", name, took)
				}
				p.wantVerdict(name, err, doclock.ErrNotAcquired)
				p.want(err, context.Canceled)
				for _, of := range []error{doclock.ErrReleased, doclock.ErrClosed, doclock.ErrInvalidArgument, failure} {
					p.wantNot(err, of)
				}
				ok(p, ticket.Cancel(p.Context()))
			}
		})
	}
}
