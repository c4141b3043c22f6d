package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

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
