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
	ticket, err := s.locks.Enqueue(s.Context(), doclock.ID(s.id), "write")
	s.must(err)
	return holding{ticket: ticket}
}

func try(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
	return s.locks.TryAcquire(ctx, doclock.ID(s.id), "write")
}

func acquire(tag string) func(context.Context, *scene, holding) (*doclock.Lease, error) {
	return func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.Acquire(ctx, doclock.ID(s.id), tag)
	}
}

// leased is a call under a lease.
func leased(f func(*doclock.Lease, context.Context) error) func(context.Context, *scene, holding) (*doclock.Lease, error) {
	return func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) { return nil, f(h.lease, ctx) }
}

var (
	update = leased(func(l *doclock.Lease, ctx context.Context) error { return l.Update(ctx, increment) })
	end    = leased(func(l *doclock.Lease, ctx context.Context) error { return l.UpdateAndRelease(ctx, increment) })
	remove = leased((*doclock.Lease).Delete)
)

var operations = []operation{
	{name: "TryAcquire", begin: nothing, call: try},
	{name: "Acquire", begin: nothing, call: acquire("write")},
	{name: "TryAcquire, refused", blocker: "read", begin: nothing, call: try},
	{name: "Acquire, refused", blocker: "write", waits: true, begin: nothing, call: acquire("read")},
	{name: "Acquire, waiting", blocker: "read", waits: true, begin: nothing, call: acquire("write")},
	{name: "Enqueue", begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		t, err := s.locks.Enqueue(ctx, doclock.ID(s.id), "write")
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
	{name: "Renew", begin: writing, call: leased((*doclock.Lease).Renew)},
	{name: "Update", begin: writing, write: true, call: update},
	{name: "UpdateAndRelease", begin: writing, write: true, call: end},
	{name: "UpdateAndRelease, sharing", shared: true, begin: sharing, write: true, call: end},
	{name: "Delete", begin: writing, deletes: true, call: remove},
	{name: "Delete, sharing", shared: true, begin: sharing, deletes: true, call: remove},
	{name: "Release", begin: writing, call: leased((*doclock.Lease).Release)},
	{name: "Do", begin: nothing, write: true, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return nil, s.locks.Do(ctx, doclock.ID(s.id), "write", func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, increment) })
	}},
}
