package doclock

import (
	"context"
)

// KeepAlive renews the lease, three times a TTL, until it is released or lost
// or ctx ends, and returns a context that ends then too. Its cause is
// [ErrReleased], [ErrLost], or ctx's. A loss is told at the moment when the
// lease ends, not at the next renewal.
//
// Errors that may pass are retried and not taken for a loss. Called twice, the
// lease still renews once; each context is its own. The goroutine that renews
// ends with the last of them.
func (l *Lease) KeepAlive(ctx context.Context) context.Context {
	kept, cancel := context.WithCancelCause(context.WithValue(ctx, outerKey{l}, l.outer(ctx)))
	if err := l.Err(); err != nil {
		cancel(err)
		return kept
	}
	unfollow := context.AfterFunc(l.over, func() { cancel(context.Cause(l.over)) })
	l.leases.kept.keep(l)
	context.AfterFunc(kept, func() {
		unfollow()
		l.leases.kept.dismiss(l)
	})
	return kept
}

// outerKey finds, in a context that KeepAlive made, the one that it was given.
type outerKey struct{ lease *Lease }

func (l *Lease) outer(ctx context.Context) context.Context {
	if outer, kept := ctx.Value(outerKey{l}).(context.Context); kept {
		return outer
	}
	return ctx
}

// patience is the caller's: it ends with ctx, unless it was this lease that
// ended ctx. Who releases a lease in the context that KeepAlive made has not
// given up waiting for the answer.
func (l *Lease) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.CancelFunc(func() {})
	if deadline, limited := ctx.Deadline(); limited {
		patient, stop = context.WithDeadline(patient, deadline)
	}
	unfollow := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause != context.Cause(l.over) {
			cancel(cause)
		}
	})
	outer := l.outer(ctx)
	unfollowOuter := context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
	return patient, func() {
		unfollow()
		unfollowOuter()
		stop()
		cancel(nil)
	}
}
