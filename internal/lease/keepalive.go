package lease

import (
	"context"
	"slices"
)

// KeepAlive implements doclock.Lease.
func (l *Handle) KeepAlive(ctx context.Context) context.Context {
	inner, end := context.WithCancelCause(ctx)
	kept := &keptContext{Context: inner, lease: l, outer: l.outer(ctx), end: end}
	if err := l.Err(); err != nil {
		end(err)
		return kept
	}
	l.leases.kept.keep(l.entry())
	l.follow(kept)
	context.AfterFunc(inner, func() {
		l.unfollow(kept)
		l.leases.kept.dismiss(l.entry())
	})
	return kept
}

// follower ends with a lease.
type follower interface{ ended(cause error) }

// keptContext is a context that KeepAlive made. There may be ten thousand of
// them, and a child of the lease's own context would cost twice as much.
type keptContext struct {
	context.Context
	lease *Handle
	outer context.Context // the one that KeepAlive was given
	end   context.CancelCauseFunc
}

// outerKey finds the outer context in it.
type outerKey struct{ lease *Handle }

// Value implements context.Context.
func (c *keptContext) Value(key any) any {
	if key == (outerKey{c.lease}) {
		return c.outer
	}
	return c.Context.Value(key)
}

func (l *Handle) outer(ctx context.Context) context.Context {
	if outer, kept := ctx.Value(outerKey{l}).(context.Context); kept {
		return outer
	}
	return ctx
}

func (c *keptContext) ended(cause error) { c.end(cause) }

// follow has another end with the lease.
func (l *Handle) follow(f follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers = append(l.followers, f)
	if l.over.Err() != nil {
		l.end(nil) // it has ended meanwhile
	}
}

func (l *Handle) unfollow(f follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers = slices.DeleteFunc(l.followers, func(other follower) bool { return other == f })
}

// end ends the belief for good, with the first cause that it is given, and
// everybody who follows it. The lease is locked.
func (l *Handle) end(cause error) {
	l.stop(cause)
	if l.share == nil {
		l.leases.ended(l.grant.ID)
	}
	for _, f := range l.followers {
		f.ended(context.Cause(l.over))
	}
	l.followers = nil
}
