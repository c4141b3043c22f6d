package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What a test calls, and what it demands of the answer.

// got is the lease of a call that must return one.
func (p *place) got(lease doclock.Lease, err error) doclock.Lease {
	p.Helper()
	must(p, err)
	return lease
}

// try demands to be granted at once.
func (p *place) try(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) doclock.Lease {
	p.Helper()
	lease, err := l.TryAcquire(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("TryAcquire %q: %v", tag, err)
	}
	return lease
}

// acquire demands to be granted, however long that takes.
func (p *place) acquire(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) doclock.Lease {
	p.Helper()
	return p.got(l.Acquire(p.bounded(), flowers, tag, opts...))
}

func (p *place) enqueue(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *multilock.Ticket {
	p.Helper()
	ticket, err := l.Enqueue(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("Enqueue %q: %v", tag, err)
	}
	return ticket
}

func (p *place) release(lease doclock.Lease) {
	p.Helper()
	if err := lease.Release(p.bounded()); err != nil {
		p.Fatalf("Release: %v", err)
	}
}

// want fails unless err is all of targets. An acquire's error is never of
// unknown outcome, and is a single line.
func (p *place) want(err error, targets ...error) {
	p.Helper()
	if errors.Is(err, doclock.ErrNotAcquired) && (errors.Is(err, doclock.ErrOutcomeUnknown) || strings.Contains(err.Error(), "\n")) {
		p.Errorf("an acquire ended with %q", err)
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			p.Errorf("got error %v, want one that is %q", err, target)
		}
	}
}

func (p *place) wantNot(err, target error) {
	p.Helper()
	if errors.Is(err, target) {
		p.Errorf("got error %v, which must not be %q", err, target)
	}
}

// conflict demands a conflict.
func (p *place) conflict(err error) *doclock.ConflictError {
	p.Helper()
	var c *doclock.ConflictError
	if !errors.As(err, &c) {
		p.Fatalf("got error %v, want a conflict", err)
	}
	return c
}

// eventually waits for a condition.
func (p *place) eventually(what string, holds func() bool) {
	p.Helper()
	fixture.Eventually(p, what, holds)
}

// bounded is a context for what should not take long.
func (p *place) bounded() context.Context { return fixture.Bounded(p) }

// asks are the ways to ask, and to have what is granted at once.
var asks = map[string]func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error){
	"TryAcquire": (*multilock.Locker).TryAcquire,
	"Acquire":    (*multilock.Locker).Acquire,
	"Enqueue": func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
		ticket, err := l.Enqueue(ctx, filter, tag, opts...)
		if ticket == nil {
			return nil, err
		}
		return ticket.Confirm(ctx)
	},
	"Do": func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
		return nil, l.Do(ctx, filter, tag, func(context.Context, doclock.Lease) error { return nil }, opts...)
	},
}

// pending is a call in another goroutine.
type pending[T any] struct {
	testing.TB
	done  chan struct{}
	value T
	err   error
}

func begin[T any](t testing.TB, call func() (T, error)) *pending[T] {
	c := &pending[T]{TB: t, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = call()
	}()
	return c
}

// wait waits for the call's end.
func (c *pending[T]) wait() (T, error) {
	c.Helper()
	wait(c, c.done)
	return c.value, c.err
}

func wait(t testing.TB, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it took too long")
	}
}

// acquire calls Acquire in another goroutine.
func acquire(t testing.TB, ctx context.Context, l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *pending[doclock.Lease] {
	return begin(t, func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, tag, opts...) })
}

// granted demands that a call returns a lease.
func (p *place) granted(call *pending[doclock.Lease]) doclock.Lease {
	p.Helper()
	return p.got(call.wait())
}

// waiting waits until a tag has a waiting entry in the document.
func (p *place) waiting(tag string) (id string) {
	p.Helper()
	p.eventually("an entry waits", func() bool {
		for _, e := range p.entries(tag) {
			if !e.held() {
				id = string(e.ID.Data)
				return true
			}
		}
		return false
	})
	return id
}

// queued waits until n acquires wait in the document's wait queue.
func (p *place) queued(l *multilock.Locker, n int) {
	p.Helper()
	p.eventually("they wait", func() bool { return l.Waiters(1) == n })
}

// sends runs a call that must send n commands. Where the server has members, the proof of a negative answer follows them.
func (p *place) sends(w *fixture.Commands, n int, name string, call func() error, is ...error) {
	p.Helper()
	w.Take()
	err := call()
	sent, more := w.All(), 0
	if n > 0 && (errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrNotFound)) && mongotest.HasMembers(p) {
		more = 1
	}
	if len(sent) != n+more || slices.ContainsFunc(sent[:n], func(c bson.Raw) bool { return fixture.Name(c) != "findAndModify" }) || more > 0 && !fixture.IsProof(sent[n]) {
		p.Errorf("%s sent %v; want %d", name, sent, n+more)
	}
	if len(is) == 0 && err != nil {
		p.Errorf("%s: %v", name, err)
	}
	p.want(err, is...)
}

// giveUp calls in a context that ends as the fault delays the command's reply. The
// caller has its answer at once, and the command goes on in the background.
func (p *place) giveUp(net *faultnet.Net, call func(context.Context) error, is ...error) *faultnet.Fault {
	p.Helper()
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(p.Context())
	calling := begin(p, func() (struct{}, error) { return struct{}{}, call(ctx) })
	wait(p, slow.Fired())
	cancel()
	p.want(errOf(calling.wait()), append(is, context.Canceled)...)
	return slow
}
