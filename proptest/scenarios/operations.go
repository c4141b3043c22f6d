package scenarios

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
)

// operation is one call of the public API that is to be cancelled.
type operation struct {
	name    string
	blocker string // the tag that another locker holds
	waits   bool   // the operation waits until it is cancelled
	begin   func(*scene) holding
	call    func(context.Context, *scene, holding) (*doclock.Lease, error)
	gives   bool // it has values of the caller's
	write   bool
	deletes bool
	shared  bool // the only holder of an entry that others may join
}

// holding is the state before an operation.
type holding struct {
	lease  *doclock.Lease
	ticket *multilock.Ticket
}

func nothing(*scene) holding   { return holding{} }
func writing(s *scene) holding { return holding{lease: s.holds("write")} }
func sharing(s *scene) holding { return holding{lease: s.holds("read")} }
func queued(s *scene) holding {
	ticket, err := s.locks.Enqueue(s.Context(), s.filter(), "write")
	s.must(err)
	return holding{ticket: ticket}
}

// try and acquire are calls with the caller's own filter.
func try(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
	return s.locks.TryAcquire(ctx, s.own.filter, "write")
}

func acquire(tag string) func(context.Context, *scene, holding) (*doclock.Lease, error) {
	return func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.Acquire(ctx, s.own.filter, tag)
	}
}

// leased is a call under a lease, which may have the caller's own update.
func leased(f func(ctx context.Context, l *doclock.Lease, update any) error) func(context.Context, *scene, holding) (*doclock.Lease, error) {
	return func(ctx context.Context, s *scene, h holding) (*doclock.Lease, error) {
		return nil, f(ctx, h.lease, s.own.update)
	}
}

var (
	renew  = leased(func(ctx context.Context, l *doclock.Lease, _ any) error { return l.Renew(ctx) })
	update = leased(func(ctx context.Context, l *doclock.Lease, update any) error { return l.Update(ctx, update) })
	end    = leased(func(ctx context.Context, l *doclock.Lease, update any) error { return l.UpdateAndRelease(ctx, update) })
	remove = leased(func(ctx context.Context, l *doclock.Lease, _ any) error { return l.Delete(ctx) })
	leave  = leased(func(ctx context.Context, l *doclock.Lease, _ any) error { return l.Release(ctx) })
)

var operations = []operation{
	{name: "TryAcquire", gives: true, begin: nothing, call: try},
	{name: "Acquire", gives: true, begin: nothing, call: acquire("write")},
	{name: "TryAcquire, refused", blocker: "read", gives: true, begin: nothing, call: try},
	{name: "Acquire, refused", blocker: "write", waits: true, gives: true, begin: nothing, call: acquire("read")},
	{name: "Acquire, waiting", blocker: "read", waits: true, gives: true, begin: nothing, call: acquire("write")},
	{name: "Enqueue", gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		t, err := s.locks.Enqueue(ctx, s.own.filter, "write")
		if err != nil {
			return nil, err
		}
		return t.Confirm(context.Background())
	}},
	{name: "Confirm", blocker: "read", begin: queued, call: func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) {
		return h.ticket.Confirm(ctx)
	}},
	{name: "Wait", blocker: "read", waits: true, begin: queued, call: func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) {
		return h.ticket.Wait(ctx)
	}},
	{name: "Cancel", blocker: "read", begin: queued, call: func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) {
		return nil, h.ticket.Cancel(ctx)
	}},
	{name: "Renew", begin: writing, call: renew},
	{name: "Update", begin: writing, gives: true, write: true, call: update},
	{name: "UpdateAndRelease", begin: writing, gives: true, write: true, call: end},
	{name: "UpdateAndRelease, sharing", shared: true, begin: sharing, gives: true, write: true, call: end},
	{name: "Delete", begin: writing, deletes: true, call: remove},
	{name: "Delete, sharing", shared: true, begin: sharing, deletes: true, call: remove},
	{name: "Release", begin: writing, call: leave},
	{name: "Do", gives: true, begin: nothing, write: true, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return nil, s.locks.Do(ctx, s.own.filter, "write", func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, s.own.update) })
	}},
}
