package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// arrival is an acquire by one id, which serves one entry only, and what is known of it.
type arrival struct {
	*call
	id     uuid.UUID
	unsure unsure        // attempts of unknown outcome
	place  *engine.Grant // of the entry that waits in the document, or nil
	slot   func()        // gives back the slot of a command whose caller has left meanwhile, or nil

	settled []uuid.UUID // marks of expired entries that are in its way
}

func (c *call) arrival() arrival { return arrival{call: c, id: uuid.New()} }

// unsure counts attempts of unknown outcome: each of them may still be executed.
type unsure struct {
	n    int
	last time.Time // when the last one ended
}

func (u *unsure) count() {
	u.n++
	u.last = time.Now()
}

// attempts are those of a request.
func (u unsure) attempts(r engine.Request) []lease.Unanswered {
	if u.n == 0 {
		return nil
	}
	return []lease.Unanswered{{Request: r, Attempts: u.n, Last: u.last}}
}

// own is the request for the entry.
func (a *arrival) own() engine.Request {
	r := a.requestWith(a.id)
	r.Settled = a.locker.leases.Settled(a.settled)
	return r
}

// mostSettles is how often an acquire settles what it meets, and asks again at once.
const mostSettles = 3

// ask asks for the lock. Where expired entries are in its way under which transactions may be
// open, it settles these, and asks again (rule 28). A settle that waits for one too long leaves
// it to the next ask.
func (a *arrival) ask(ctx context.Context, noPlace bool) (got granted, err error) {
	for range mostSettles {
		got, err = a.askOnce(ctx, noPlace)
		marks := a.locker.engine.Unsettled(got.image, a.own())
		if len(marks) == 0 || got.lease != nil || a.slot != nil || !waits(err) {
			break
		}
		settled, failed := a.locker.leases.Settle(ctx, marks)
		switch a.settled = append(a.settled, settled...); {
		case failed != nil && engine.AsFailure(failed).Refused():
			return got, explain("settle", failed)
		case len(settled) == 0:
			return got, err
		}
	}
	return got, err
}

// askOnce asks for the lock, or for a place in the document if the tag has one, or whether the
// entry that waits there is granted. If it is not granted, the error is a conflict, or nil
// where the entry waits and nothing is in its way. The command runs to its end if ctx ends.
func (a *arrival) askOnce(ctx context.Context, noPlace bool) (got granted, err error) {
	closing := a.locker.ops.Closing()
	if a.place != nil {
		closing = nil
	}
	sent, done, err := a.locker.slots.take(ctx, a.call, closing)
	if err != nil {
		return got, err
	}
	answer, err := a.send(ctx, noPlace)
	sent()
	if err == nil {
		got, err = a.judge(answer)
	}
	if ctx.Err() != nil && (a.place != nil || a.unsure.n > 0 || got.lease != nil) {
		a.slot = done // until the entry is removed
	} else {
		done()
	}
	return got, err
}

// send sends the acquire, or the confirm of an entry that waits, until it is answered. Only
// a filter that pins the document may be sent twice: another one could find another
// document.
func (a *arrival) send(ctx context.Context, noPlace bool) (got engine.Answer, err error) {
	e, r := a.locker.engine, a.own()
	if a.place != nil {
		return got, a.settle(ctx, "confirm", attempt.Settle, func(ctx context.Context) (err error) {
			got, err = e.Confirm(ctx, a.filter, a.place.Pin, r)
			return err
		})
	}
	if a.locker.ops.Closed() {
		return got, a.locker.closed
	}
	r.Try = noPlace
	settle := attempt.Settle
	if a.filter.Pin == nil {
		settle = attempt.SettleOnce
	}
	return got, a.settle(ctx, "acquire", settle, func(ctx context.Context) (err error) {
		filter := a.filter
		if a.unsure.n > 0 {
			filter = e.Again(filter, r)
		}
		a.progress.unsure.Add(1)
		got, err = e.Acquire(ctx, filter, r)
		if err == nil && got.Outcome == engine.NotFound {
			err = e.Absent(ctx, filter)
		}
		switch {
		case err != nil && !engine.AsFailure(err).Nothing:
			a.unsure.count()
		case err != nil || got.Outcome != engine.Granted:
			a.progress.unsure.Add(-1)
		}
		return err
	})
}

// judge applies an answer. An arrival is granted, or refused, or waits; a waiting
// entry is granted, or kept, or lost ([doclock.ErrLost]), or its document has changed
// ([doclock.ErrNotFound]).
func (a *arrival) judge(answer engine.Answer) (got granted, err error) {
	e, r := a.locker.engine, a.requestWith(a.id)
	got.image, got.sent = answer.Image, answer.Sent.Mono
	a.observed.lookAt(answer.Image)
	arrives := a.place == nil
	switch {
	case !arrives && answer.Outcome == engine.Lost:
		return got, a.lost(answer, false)
	case !arrives && answer.Outcome == engine.NotFound: // the caller's filter matches no more
		_ = a.lost(answer, true)
		return got, a.notFound()
	case !arrives:
	case answer.Outcome == engine.Granted, answer.Outcome == engine.Waiting:
		place := e.Grant(answer.Image, r)
		a.place = &place
	case answer.Image != nil:
		return got, a.conflict(answer.Image, nil)
	default:
		return got, a.notFound()
	}
	own, _ := answer.Image.Lock.Find(r.Tag, r.ID)
	switch {
	case own.Seq != a.place.Seq: // pruned, and made anew by a late duplicate
		return got, a.lost(engine.Answer{}, true)
	case answer.Outcome == engine.Waiting:
		err = a.conflict(answer.Image, &own)
		if arrives && !errors.Is(err, doclock.ErrConflict) { // a repeated acquire is not decided anew, and may wait although no entry blocks it
			err = nil
		}
		return got, err
	}
	a.place = nil
	got.lease = a.locker.leases.New(e.Grant(answer.Image, r), answer.Sent, a.unsure.attempts(r)...)
	a.locker.sweep(answer.Image)
	return got, nil
}

// lost leaves the entry to the clean-up, and is the error of its loss. A new arrival can make
// another one.
func (a *arrival) lost(answer engine.Answer, seen bool) error {
	a.locker.cleanup.discard(engine.Filter{Pin: a.place.Pin}, a.requestWith(a.id), a.unsure, seen, nil)
	err := a.locker.leases.Missing(a.place, answer)
	a.place, a.unsure = nil, unsure{}
	return err
}

// end is the end of the acquire, and of its wait w, or nil. Without a lease no entry may stay
// in the document. One that a command has made whose caller has left is removed before
// another command may be sent.
func (a *arrival) end(ctx context.Context, got granted, err error, w *waitqueue.Waiter) (granted, error) {
	switch {
	case got.lease != nil && ctx.Err() == nil:
		a.leave(w)
		return got, nil
	case got.lease != nil:
		a.takeBack(got.lease)
		a.leave(w)
		return granted{}, cmp.Or(err, attempt.Ended(ctx))
	case a.slot != nil:
		a.discard(func(error) { a.leave(w) })
	default:
		a.discard(nil)
		a.leave(w)
	}
	return granted{}, err
}

// leave lets others go on: one gets the slot, and those behind it in the wait queue may ask.
func (a *arrival) leave(w *waitqueue.Waiter) {
	if a.slot != nil {
		a.slot()
	}
	if w != nil {
		a.locker.queues.Leave(w)
	}
}

// discard leaves the entry to the clean-up, which calls answer once a command was answered.
func (a *arrival) discard(answer func(error)) {
	f := a.filter
	switch {
	case a.place != nil:
		f = engine.Filter{Pin: a.place.Pin}
	case f.Pin != nil:
		f = engine.Filter{Pin: f.Pin}
	}
	a.locker.cleanup.discard(f, a.requestWith(a.id), a.unsure, a.place != nil, answer)
}

// queuePlace is the entry's place, or none, as the wait queue knows it.
func (a *arrival) queuePlace() waitqueue.Place {
	if a.place == nil {
		return waitqueue.Place{}
	}
	return waitqueue.Place{Seq: a.place.Seq, Confirm: a.confirmPause()}
}

// confirmPause is the longest pause between two confirms that keeps the place.
func (c *call) confirmPause() time.Duration { return c.locker.engine.Wait(c.request.Tag) / 3 }

// settle sends a command until it is answered, or explains why it has no answer.
func (c *call) settle(ctx context.Context, command string, settle settler, send func(context.Context) error) error {
	unsure, err := settle(ctx, c.bounds, func(ctx context.Context) error { return c.progress.send(ctx, send) })
	if err == nil {
		return nil
	}
	cause := cmp.Or(unsure, err)
	if engine.AsFailure(cause).Cause == engine.CauseRace && !c.skip {
		return fmt.Errorf("%w: %w", c.notFound(), cause)
	}
	if engine.Late(cause) { // the document may be the reason
		command += c.where()
	}
	return explain(command, cause)
}

// settler is [attempt.Settle] or [attempt.SettleOnce].
type settler func(context.Context, engine.Attempts, func(context.Context) error) (unsure, err error)

// Bounds of the acquires and confirms of one Locker that are under way at a
// time. A command continues when its caller gives up. So without a bound, many
// callers with short deadlines would pile up commands: on the document, where the
// holder's renewal waits among them, and in the driver's connection pool, which
// has 100 connections by default. Renewals, releases and clean-ups don't wait for it.
const (
	mostPerDocument = 8
	mostPerLocker   = 64
)

// slots are those of one Locker, taken in the order of arrival.
type slots struct {
	locker *Locker
	all    attempt.Gate

	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is what is under way to one document.
type lane struct {
	slots attempt.Gate
	users int // acquires that have a slot, or wait for one
}

// take waits until a command of the call may be sent, ctx ends or closing is closed. With an
// error nothing was sent. Otherwise the caller calls sent when the command has ended, and
// done when its entry is removed or used.
func (s *slots) take(ctx context.Context, c *call, closing <-chan struct{}) (sent, done func(), err error) {
	l := s.enter(c.lane)
	if err := s.wait(ctx, l.slots, c, closing); err != nil {
		s.leave(c.lane, l)
		return nil, nil, err
	}
	done = func() {
		l.slots.Unlock()
		s.leave(c.lane, l)
	}
	if err := s.wait(ctx, s.all, c, closing); err != nil {
		done()
		return nil, nil, err
	}
	return s.all.Unlock, done, nil
}

// wait takes a slot. Those ahead may wait for a server, one after the other: when none can be
// reached, a call waits no longer than they do.
func (s *slots) wait(ctx context.Context, slots attempt.Gate, c *call, closing <-chan struct{}) error {
	if slots.TryLock() {
		return nil
	}
	looks := time.NewTicker(max(c.bounds.RetryLimit, c.bounds.Timeout))
	defer looks.Stop()
	for {
		select {
		case slots <- struct{}{}:
			return nil
		case <-looks.C:
			if err := s.locker.engine.Unreachable(); err != nil {
				return explain("acquire", err)
			}
		case <-ctx.Done():
			return attempt.Ended(ctx)
		case <-closing:
			return s.locker.closed
		}
	}
}

func (s *slots) enter(document string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[document]
	if l == nil {
		l = &lane{slots: make(attempt.Gate, mostPerDocument)}
		s.lanes[document] = l
	}
	l.users++
	return l
}

func (s *slots) leave(document string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(s.lanes, document)
	}
}
