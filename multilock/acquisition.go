package multilock

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
)

// acquisition is one call of TryAcquire, Enqueue or Acquire on its way.
type acquisition struct {
	locker   *Locker
	filter   engine.Filter
	document string // the key of its line, where the filter tells
	request  engine.Request
	into     any
	maxWait  *time.Duration
	shared   bool // another one's entry will do
	timeout  time.Duration
	begun    time.Time
	seen     *engine.Image // the last one that it was answered with
	lane     string        // whose commands are bounded together: the document's, or the filter's

	unsure unsure // attempts by the request's id
	gone   bool   // the caller left while a command was out: its end is the acquire's
	ended  func() // is called then, once what it entered is removed; or nil
}

// unsure counts attempts of unknown outcome: each of them may be executed yet.
type unsure struct {
	n    int
	last time.Time // when the last one ended
}

// note takes in how an attempt ended.
func (u *unsure) note(err error) {
	if err != nil && !engine.AsFailure(err).Certain {
		u.n++
		u.last = time.Now()
	}
}

func (u *unsure) add(more unsure) {
	u.n += more.n
	if more.n > 0 {
		u.last = more.last
	}
}

// answer is what an acquire or confirm came back with.
type answer struct {
	engine.Answer
	unsure unsure        // attempts beside the one that was answered
	lease  *lease.Handle // of an entry that was there already, and nothing else
	err    error
}

// acquire waits for the lock, for as long as MaxWait says.
func (a *acquisition) acquire(ctx context.Context) (*lease.Handle, error) {
	if a.maxWait != nil && *a.maxWait == 0 {
		return a.try(ctx)
	}
	if a.maxWait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *a.maxWait, &attempt.Over{After: *a.maxWait})
		defer cancel()
	}
	held, err := a.wait(ctx)
	return held, a.failed(ctx, err)
}

// try sends one acquire that doesn't wait.
func (a *acquisition) try(ctx context.Context) (*lease.Handle, error) {
	a.request.Try = true
	held, err := a.join(ctx)
	if held == nil && err == nil {
		var t *Ticket
		t, err = a.arrive(ctx)
		held = t.granted()
	}
	a.leave(held)
	a.locker.queue.answered(a, held)
	return held, a.failed(ctx, err)
}

// arrive sends one acquire. The ticket is granted or waiting.
func (a *acquisition) arrive(ctx context.Context) (*Ticket, error) {
	got, gaveUp, err := run(ctx, a, a.locker.ops.Closing(), func() answer { return a.send(ctx) }, a.undo)
	if err != nil {
		return nil, err
	}
	if gaveUp != nil {
		a.gone = true
		return nil, gaveUp
	}
	a.unsure.add(got.unsure)
	if got.err != nil {
		return nil, got.err
	}
	a.seen = got.Image
	switch got.Outcome {
	case engine.Granted, engine.Waiting:
		return newTicket(a, got)
	case engine.Conflict:
		a.filter = a.filter.At(a.locker.engine.Pin(got.Image))
		return nil, a.conflict(got.Image, nil)
	default:
		return nil, doclock.ErrNotFound
	}
}

// run runs a command as [attempt.Run] does, within the bounds of what may be
// under way; abandoned calls done once what the command entered is removed.
// With err nothing was sent.
func run[T any](ctx context.Context, a *acquisition, closing <-chan struct{}, op func() T, abandoned func(got T, done func())) (got T, gaveUp, err error) {
	ended, leave, err := a.locker.inflight.enter(ctx, a.lane, closing)
	if err != nil {
		return got, nil, err
	}
	got, gaveUp = attempt.Run(ctx, &a.locker.ops, func() T {
		defer ended()
		return op()
	}, func(got T) { abandoned(got, leave) })
	if gaveUp == nil {
		leave()
	}
	return got, gaveUp, nil
}

// send settles the acquire. Only a filter that pins the document may be sent
// twice: another one could find another document. It runs in the locker's
// group: a Close that came before is seen here, one that comes later waits.
func (a *acquisition) send(ctx context.Context) (got answer) {
	if a.locker.closing() {
		return answer{err: doclock.ErrClosed}
	}
	settle := attempt.Settle
	if a.filter.Pin == nil {
		settle = attempt.SettleOnce
	}
	e := a.locker.engine
	unsure, err := settle(ctx, a.timeout, func(ctx context.Context) (err error) {
		got.Answer, err = e.Acquire(ctx, a.filter, a.request)
		got.unsure.note(err)
		return err
	})
	switch {
	case err == nil:
	case unsure == nil:
		got.err = a.refused("acquire", err)
	default:
		got.err = explain("acquire", unsure)
	}
	return got
}

// undo removes what an acquire has entered, or may enter, after its caller had
// given up.
func (a *acquisition) undo(got answer, done func()) {
	a.unsure.add(got.unsure)
	pin, entered := a.filter.Pin, got.err == nil && (got.Outcome == engine.Granted || got.Outcome == engine.Waiting)
	if entered {
		pin = a.locker.engine.Pin(got.Image)
	}
	a.discard(pin, a.request.ID, a.unsure, entered, func(error) { a.end(done) })
}

// end is the end of an acquire whose caller had left before.
func (a *acquisition) end(done func()) {
	done()
	if a.ended != nil {
		a.ended()
	}
}

// leave is the end of an acquire whose caller has the answer: without a lease
// of its own id, nothing may stand in the document by that.
func (a *acquisition) leave(held *lease.Handle) {
	if !a.gone && (held == nil || held.ID() != a.request.ID) {
		a.discard(a.filter.Pin, a.request.ID, a.unsure, false, nil)
	}
}

// renamed starts over under a new id: an id serves one entry only.
func (a *acquisition) renamed() {
	a.request.ID, a.unsure = uuid.New(), unsure{}
}

// discard has the clean-up remove the entry with the id, if one was seen or
// may be entered yet. Without a pin the server has to look through the
// collection.
func (a *acquisition) discard(pin engine.Pin, id uuid.UUID, late unsure, seen bool, answer func(error)) {
	l := leftover{id: id, seen: seen, entries: late.n}
	last := late.last
	if seen {
		l.entries++
		last = time.Now()
	}
	l.until = last.Add(a.locker.cleanup.life(a.request.Tag))
	if answer != nil {
		l.answers = append(l.answers, answer)
	}
	if l.entries > 0 {
		a.locker.cleanup.add(pin, a.request.Tag, l)
	} else if answer != nil {
		answer(nil)
	}
}

// hold makes the lease of what was granted. Once it is given back, an earlier
// attempt may still enter its id again.
func (a *acquisition) hold(g engine.Grant, sent engine.Reading) *lease.Handle {
	held := a.locker.leases.New(g, sent, a.shared)
	if late := a.unsure; late.n > 0 {
		held.AfterRelease(func() { a.discard(g.Pin, g.ID, late, false, nil) })
	}
	return held
}

// decode gives the caller the document, in the caller's own goroutine: a
// command whose caller gave up must not write into the caller's memory. A
// lease whose document can't be decoded is released, also where the caller's
// own decoding panics.
func (a *acquisition) decode(img *engine.Image, held *lease.Handle) error {
	if a.into == nil {
		return nil
	}
	decoded := false
	defer func() {
		if !decoded { // or the caller's code has panicked
			a.locker.giveBack(held, nil)
		}
	}()
	if err := a.locker.engine.Decode(img, a.into); err != nil {
		return fmt.Errorf("doclock: decode the document into a %T: %w", a.into, err)
	}
	decoded = true
	return nil
}
