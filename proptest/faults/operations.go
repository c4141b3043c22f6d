package faults

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
)

// operation is one call of the public API that is to be cancelled.
type operation struct {
	name    string
	blocked bool // another locker holds the lock
	waits   bool // and the operation waits until it is cancelled
	begin   func(context.Context, *scene) (holding, error)
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

func nothing(context.Context, *scene) (holding, error) { return holding{}, nil }

func held(ctx context.Context, s *scene) (h holding, err error) {
	h.lease, err = s.locks.TryAcquire(ctx, s.filter(), "write")
	return h, err
}

func sharing(ctx context.Context, s *scene) (h holding, err error) {
	h.lease, err = s.locks.TryAcquire(ctx, s.filter(), "read")
	return h, err
}

func queued(ctx context.Context, s *scene) (h holding, err error) {
	h.ticket, err = s.locks.Enqueue(ctx, s.filter(), "write")
	return h, err
}

func onLease(f func(context.Context, *doclock.Lease) error) func(context.Context, *scene, holding) (*doclock.Lease, error) {
	return func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) { return nil, f(ctx, h.lease) }
}

func write(f func(context.Context, *doclock.Lease, any) error) func(context.Context, *scene, holding) (*doclock.Lease, error) {
	return func(ctx context.Context, s *scene, h holding) (*doclock.Lease, error) {
		return nil, f(ctx, h.lease, s.own.update)
	}
}

var operations = []operation{
	{name: "TryAcquire", gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.TryAcquire(ctx, s.own.filter, "write")
	}},
	{name: "Acquire", gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.Acquire(ctx, s.own.filter, "write")
	}},
	{name: "TryAcquire, refused", blocked: true, gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.TryAcquire(ctx, s.own.filter, "write")
	}},
	{name: "Acquire, refused", blocked: true, waits: true, gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.Acquire(ctx, s.own.filter, "read")
	}},
	{name: "Acquire, waiting", blocked: true, waits: true, gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return s.locks.Acquire(ctx, s.own.filter, "write")
	}},
	{name: "Enqueue", gives: true, begin: nothing, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		t, err := s.locks.Enqueue(ctx, s.own.filter, "write")
		if err != nil {
			return nil, err
		}
		return t.Confirm(context.Background())
	}},
	{name: "Confirm", blocked: true, begin: queued, call: func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) {
		return h.ticket.Confirm(ctx)
	}},
	{name: "Wait", blocked: true, waits: true, begin: queued, call: func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) {
		return h.ticket.Wait(ctx)
	}},
	{name: "Cancel", blocked: true, begin: queued, call: func(ctx context.Context, _ *scene, h holding) (*doclock.Lease, error) {
		return nil, h.ticket.Cancel(ctx)
	}},
	{name: "Renew", begin: held, call: onLease(func(ctx context.Context, l *doclock.Lease) error { return l.Renew(ctx) })},
	{name: "Update", begin: held, gives: true, write: true, call: write(func(ctx context.Context, l *doclock.Lease, update any) error { return l.Update(ctx, update) })},
	{name: "UpdateAndRelease", begin: held, gives: true, write: true, call: write(func(ctx context.Context, l *doclock.Lease, update any) error { return l.UpdateAndRelease(ctx, update) })},
	{name: "UpdateAndRelease, sharing", shared: true, begin: sharing, gives: true, write: true, call: write(func(ctx context.Context, l *doclock.Lease, update any) error { return l.UpdateAndRelease(ctx, update) })},
	{name: "Delete", begin: held, deletes: true, call: onLease(func(ctx context.Context, l *doclock.Lease) error { return l.Delete(ctx) })},
	{name: "Delete, sharing", shared: true, begin: sharing, deletes: true, call: onLease(func(ctx context.Context, l *doclock.Lease) error { return l.Delete(ctx) })},
	{name: "Release", begin: held, call: onLease(func(ctx context.Context, l *doclock.Lease) error { return l.Release(ctx) })},
	{name: "Do", gives: true, begin: nothing, write: true, call: func(ctx context.Context, s *scene, _ holding) (*doclock.Lease, error) {
		return nil, s.locks.Do(ctx, s.own.filter, "write", func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, s.own.update) })
	}},
}
