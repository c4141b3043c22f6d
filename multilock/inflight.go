package multilock

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
)

// Bounds of the acquires and confirms of one Locker that are under way at a
// time. A command continues when its caller gives up. So without a bound, many
// callers with short deadlines would pile up commands: on the document, where the
// holder's renewal waits among them, and in the driver's connection pool, which
// has 100 connections by default.
const (
	mostPerDocument = 8
	mostPerLocker   = 64
)

// inflight bounds the acquires and confirms of one Locker, also those whose
// callers have left. One of a document counts until its entry is removed or used.
// Renewals, releases and clean-ups don't wait for it.
type inflight struct {
	mu    sync.Mutex
	all   slots
	lanes map[string]*lane

	closed error // of those that wait when the Locker is closed
}

// lane is what is under way to one document.
type lane struct {
	slots
	users int // acquires that have a slot, or wait for one
}

// slots are taken in the order of arrival.
type slots struct {
	free    int
	waiting list.List // of *wait
}

// wait is one acquire's wait for a slot.
type wait struct {
	over chan struct{} // closed when the slot is there, or the wait has failed
	err  error         // why it has failed
}

func newInflight(closed error) *inflight {
	return &inflight{all: slots{free: mostPerLocker}, lanes: map[string]*lane{}, closed: closed}
}

// run runs a command as [attempt.Run] does, within the bounds of what may be
// under way. With an error the caller has left while the command was under way
// (gone), or nothing was sent. If the caller has left, abandoned gets the result, and
// calls done once the command's entry is removed: the waiter leaves its queue then.
func run[T any](ctx context.Context, a *asked, w *waitqueue.Waiter, closing <-chan struct{}, op func() T, abandoned func(got T, done func())) (got T, gone bool, err error) {
	ended, done, err := a.locker.inflight.start(ctx, a.lane, closing)
	if err != nil {
		return got, false, err
	}
	got, err = attempt.Run(ctx, &a.locker.ops, func() T {
		defer ended()
		return op()
	}, func(got T) {
		abandoned(got, func() {
			done()
			if w != nil {
				a.locker.leave(w)
			}
		})
	})
	if err != nil {
		return got, true, err
	}
	done()
	return got, false, nil
}

// settle sends a command until it is answered, or explains why it has no answer. After
// an outage, the acquires that wait to send theirs fail too.
func (a *asked) settle(ctx context.Context, command string, settle settler, send func(context.Context) error) error {
	unsure, err := settle(ctx, a.bounds, func(ctx context.Context) error { return a.silence.during(ctx, send) })
	if err == nil {
		return nil
	}
	cause := cmp.Or(unsure, err)
	explained := explain(command, cause)
	if engine.AsFailure(cause).Cause == engine.CauseRace && !a.skip {
		explained = fmt.Errorf("%w: %w", a.notFound(), cause)
	}
	if unsure == nil && ctx.Err() == nil && a.outage(err) {
		a.locker.inflight.fail(explained)
	}
	return explained
}

// settler is [attempt.Settle] or [attempt.SettleOnce].
type settler func(context.Context, engine.Attempts, func(context.Context) error) (unsure, err error)

// outage reports that no server has taken a command for as long as any command is
// repeated. A call that tries once gives up before.
func (a *asked) outage(err error) bool {
	return !a.tries() && engine.AsFailure(err).Outage()
}

// start waits until a command to the document may be sent, ctx ends or closing
// is closed. With an error nothing was sent. Otherwise the caller calls ended when the
// command has ended, and done when its entry is removed or used.
func (f *inflight) start(ctx context.Context, document string, closing <-chan struct{}) (ended, done func(), err error) {
	l := f.lane(document)
	if err := f.take(ctx, &l.slots, closing); err != nil {
		f.done(document, l, 0)
		return nil, nil, err
	}
	if err := f.take(ctx, &f.all, closing); err != nil {
		f.done(document, l, 1)
		return nil, nil, err
	}
	return f.ended, func() { f.done(document, l, 1) }, nil
}

func (f *inflight) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all.give()
}

// owe counts, without waiting, an entry that is being removed from the
// document: as long as there are many, no more are made.
func (f *inflight) owe(document string) (done func()) {
	l := f.lane(document)
	f.mu.Lock()
	defer f.mu.Unlock()
	l.free--
	return func() { f.done(document, l, 1) }
}

func (f *inflight) lane(document string) *lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lanes[document]
	if l == nil {
		l = &lane{slots: slots{free: mostPerDocument}}
		f.lanes[document] = l
	}
	l.users++
	return l
}

func (f *inflight) done(document string, l *lane, taken int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range taken {
		l.give()
	}
	l.users--
	if l.users == 0 {
		delete(f.lanes, document)
	}
}

func (f *inflight) take(ctx context.Context, s *slots, closing <-chan struct{}) error {
	f.mu.Lock()
	if s.free > 0 {
		s.free--
		f.mu.Unlock()
		return nil
	}
	w := &wait{over: make(chan struct{})}
	element := s.waiting.PushBack(w)
	f.mu.Unlock()

	var err error
	select {
	case <-w.over:
		return w.err
	case <-ctx.Done():
		err = attempt.Ended(ctx)
	case <-closing:
		err = f.closed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-w.over: // at the same time
		if w.err == nil {
			s.give()
		}
	default:
		s.waiting.Remove(element)
	}
	return err
}

// fail ends the wait of all acquires for a slot: one that has a slot could not
// reach a server for long.
func (f *inflight) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all.fail(err)
	for _, l := range f.lanes {
		l.fail(err)
	}
}

func (s *slots) fail(err error) {
	for s.waiting.Len() > 0 {
		w := s.waiting.Remove(s.waiting.Front()).(*wait)
		w.err = err
		close(w.over)
	}
}

func (s *slots) give() {
	s.free++
	for s.free > 0 && s.waiting.Len() > 0 {
		s.free--
		close(s.waiting.Remove(s.waiting.Front()).(*wait).over)
	}
}
