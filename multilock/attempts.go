package multilock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// attempts are the acquires by one id, and what is known of them. They are a value:
// each step takes one and returns the next. A command that outlives its caller cleans up
// by the value from before the command, which is its own: no step changes its receiver
// after it has sent one.
type attempts struct {
	*asked
	id     uuid.UUID
	unsure unsure            // those of unknown outcome
	waiter *waitqueue.Waiter // in the document's wait queue, or nil
	entry  *entry            // that waits in the document, or nil
	image  *engine.Image     // of the last answer in this step, or nil
	held   *lease.Handle     // what they were granted, or nil
	err    error             // why they were not
	pruned bool              // their entry is gone, and a new one can be made
	gone   bool              // the caller left during a command, whose end is the acquire's
}

// newAttempts are none yet, by a new id: an id serves one entry only.
func newAttempts(a *asked, w *waitqueue.Waiter) attempts {
	return attempts{asked: a, id: uuid.New(), waiter: w}
}

// unsure counts attempts of unknown outcome: each of them may still be executed.
type unsure struct {
	n    int
	last time.Time // when the last one ended
}

// note records how an attempt ended.
func (u *unsure) note(err error) {
	if err != nil && !engine.AsFailure(err).Nothing {
		u.n++
		u.last = time.Now()
	}
}

// of are the attempts as those of a request.
func (u unsure) of(r engine.Request) []lease.Unanswered {
	if u.n == 0 {
		return nil
	}
	return []lease.Unanswered{{Request: r, Attempts: u.n, Last: u.last}}
}

func (u *unsure) add(more unsure) {
	u.n += more.n
	if more.n > 0 {
		u.last = more.last
	}
}

// once asks for the lock, or joins an entry of this process; it doesn't wait.
func (s attempts) once(ctx context.Context) attempts {
	s = s.join(ctx)
	if s.held == nil && s.err == nil {
		s = s.arrive(ctx, true)
	}
	s.held, s.err = s.deliver(s.image, s.held, s.err)
	if s.shared {
		s.locker.queues.Tried(s.where(), s.queuedBy(s.id, nil), idOf(s.held), s.image)
	}
	return s
}

// join shares an entry that other holders of this process have. It sends one command or
// none. Without an entry that can be joined there is neither a lease nor an error.
func (s attempts) join(ctx context.Context) attempts {
	next := s
	entry, check, err := s.locker.queues.Join(ctx, s.document, s.queuedBy(s.id, nil))
	if check == nil {
		next.held, next.err = s.locker.leases.Take(entry), err
		return next
	}
	checked, gone, err := run(ctx, s.asked, s.waiter, s.locker.ops.Closing(), func() attempts {
		checked := s.check(ctx, check.ID)
		check.End(checked.image)
		return checked
	}, func(checked attempts, done func()) {
		if checked.held != nil {
			_ = s.locker.cleanup.released(s.request, checked.held, checked.held.Unlock(context.Background()))
		}
		done()
	})
	if err != nil {
		if !gone { // nothing was sent
			check.End(nil)
		}
		next.err, next.gone = err, gone
		return next
	}
	s.observed.sees(checked.image)
	return checked
}

// check asks whether an entry may be joined. If the check fails, the acquire itself
// asks, unless the caller's own code has panicked.
func (s attempts) check(ctx context.Context, id uuid.UUID) attempts {
	held, img, err := s.locker.leases.Look(ctx, id, len(s.into) > 0)
	if err != nil {
		s.err = engine.PanicIn(err)
		return s
	}
	s.image = img
	if blocking, _ := s.locker.engine.InTheWay(img, s.request.Tag, nil); len(blocking) == 0 {
		s.held = held
		return s
	}
	_ = s.locker.cleanup.released(s.request, held, held.Unlock(context.Background()))
	s.err = s.conflict(img, nil)
	return s
}

// arrive sends one acquire. With neither a lease nor an error, or with a conflict, an
// entry may wait in the document.
func (s attempts) arrive(ctx context.Context, try bool) attempts {
	s, got := s.send(ctx, try)
	if s.err != nil {
		return s
	}
	return s.answered(got)
}

// reply is the result of an acquire, a confirm or a resume.
type reply struct {
	engine.Answer
	unsure unsure // attempts beside the one that was answered
	err    error
}

// send sends the acquire until it is answered, or says in err why it was not. Only a
// filter that pins the document may be sent twice: another one could find another
// document. It runs in the locker's group: it returns the Locker's end after a Close, and a
// later Close waits for it.
func (s attempts) send(ctx context.Context, try bool) (attempts, engine.Answer) {
	next, r, settle := s, s.by(s.id), attempt.Settle
	r.Try = try
	if s.filter.Pin == nil {
		settle = attempt.SettleOnce
	}
	got, gone, err := run(ctx, s.asked, s.waiter, s.locker.ops.Closing(), func() (got reply) {
		if s.locker.closing() {
			return reply{err: s.locker.closed}
		}
		got.err = s.settle(ctx, "acquire", settle, func(ctx context.Context) (err error) {
			filter := s.filter
			if s.unsure.n+got.unsure.n > 0 {
				filter = s.locker.engine.Again(filter, r)
			}
			got.Answer, err = s.locker.engine.Acquire(ctx, filter, r)
			if err == nil && got.Outcome == engine.NotFound {
				err = s.locker.engine.Absent(ctx, filter)
			}
			got.unsure.note(err)
			return err
		})
		return got
	}, s.undo)
	next.unsure.add(got.unsure)
	next.err, next.gone = cmp.Or(err, got.err), gone
	return next, got.Answer
}

// undo removes the entry that an acquire has made, or may make, after its caller
// gave up.
func (s attempts) undo(got reply, done func()) {
	s.unsure.add(got.unsure)
	pin, made := s.filter.Pin, got.err == nil && (got.Outcome == engine.Granted || got.Outcome == engine.Waiting)
	if made {
		pin = s.locker.engine.Pin(got.Image)
	}
	s.locker.cleanup.discard(pin, s.by(s.id), s.unsure, made, func(error) { done() })
}

// answered applies an answer. An arrival is granted, or refused, or waits; a waiting
// entry is granted, or kept, or lost.
func (s attempts) answered(got engine.Answer) attempts {
	s.image = got.Image
	s.observed.sees(got.Image)
	arrives := s.entry == nil
	if arrives {
		if s.entry, s.err = s.arrived(got); s.err != nil {
			return s
		}
	}
	s.held, s.err = s.entry.judge(got)
	s.pruned = errors.Is(s.err, doclock.ErrLost)
	switch {
	case s.held != nil, s.pruned:
		s.entry = nil
	case arrives && !errors.Is(s.err, doclock.ErrConflict):
		s.err = nil // a repeated acquire is not decided anew, and may wait although no entry blocks it
	}
	return s
}

// arrived is the entry of an arrival, or its refusal.
func (s attempts) arrived(got engine.Answer) (*entry, error) {
	switch {
	case got.Outcome == engine.Granted, got.Outcome == engine.Waiting:
		return &entry{asked: s.asked, grant: s.locker.engine.Grant(got.Image, s.by(s.id)), unsure: s.unsure}, nil
	case got.Image != nil:
		return nil, s.conflict(got.Image, nil)
	default:
		return nil, s.notFound()
	}
}

// cleanUp is the end of attempts whose caller has the answer. Without a lease of their
// own id, no entry may stay in the document by that id. answer, or nil, is called once
// there is none, or an error, and not for those with a lease.
func (s attempts) cleanUp(answer func(error)) {
	if !s.gone && (s.held == nil || s.held.ID() != s.id) {
		s.locker.cleanup.discard(s.filter.Pin, s.by(s.id), s.unsure, false, answer)
	}
}

// where is the key of the document of the last answer, or of the one that the filter
// names.
func (s attempts) where() string {
	if s.image != nil {
		return waitqueue.Key(s.locker.engine.Pin(s.image))
	}
	return s.document
}

func idOf(held *lease.Handle) uuid.UUID {
	if held == nil {
		return uuid.Nil
	}
	return held.ID()
}

// entry is an acquire's entry in the document, granted or waiting.
type entry struct {
	*asked
	grant  engine.Grant // of the arrival; it never changes
	unsure unsure       // attempts of the arrival
}

// judge applies an answer to the entry: it has a lease, or a conflict, or is lost
// ([doclock.ErrLost]) and left to the clean-up. After a lease's release an earlier
// attempt may still make the entry again.
func (e *entry) judge(got engine.Answer) (*lease.Handle, error) {
	if got.Outcome == engine.Lost {
		e.discard(e.unsure, false, nil)
		return nil, e.locker.missing(e.grant, got)
	}
	own, _ := got.Image.Lock.Find(e.grant.Tag, e.grant.ID)
	if own.Seq != e.grant.Seq { // pruned, and made anew by a late duplicate
		e.discard(e.unsure, true, nil)
		return nil, e.locker.missing(e.grant, engine.Answer{})
	}
	if got.Outcome == engine.Waiting {
		return nil, e.conflict(got.Image, &own)
	}
	r := e.by(e.grant.ID)
	return e.locker.leases.New(e.locker.engine.Grant(got.Image, r), got.Sent, e.shared, e.unsure.of(r)...), nil
}

// discard leaves the entry to the clean-up.
func (e *entry) discard(late unsure, seen bool, answer func(error)) {
	e.locker.cleanup.discard(e.grant.Pin, e.by(e.grant.ID), late, seen, answer)
}

// withdraw removes the entry from the document, whether or not it has a lease,
// and then calls done.
func (e *entry) withdraw(held *lease.Handle, done func(error)) {
	if held != nil {
		e.locker.cleanup.release(context.Background(), e.request, held, done)
		return
	}
	removed := e.locker.inflight.owe(e.lane)
	e.discard(e.unsure, true, func(err error) {
		removed()
		done(err)
	})
}

// confirm asks whether the entry is granted, until it is answered.
func (e *entry) confirm(ctx context.Context) (got reply) {
	got.err = e.settle(ctx, "confirm", attempt.Settle, func(ctx context.Context) (err error) {
		got.Answer, err = e.locker.engine.Confirm(ctx, e.grant.Pin, e.by(e.grant.ID))
		return err
	})
	return got
}

// abandoned removes the waiter's entry from the document, granted or not, after
// the end of a confirm whose caller has left.
func (e *entry) abandoned(got reply, done func()) {
	var held *lease.Handle
	if got.err == nil {
		var err error
		if held, err = e.judge(got.Answer); errors.Is(err, doclock.ErrLost) {
			done()
			return
		}
	}
	e.withdraw(held, func(error) { done() })
}

// queued is the entry's place, or none, as the wait queue knows it.
func (e *entry) queued() waitqueue.Place {
	if e == nil {
		return waitqueue.Place{}
	}
	return waitqueue.Place{Seq: e.grant.Seq, Confirm: e.keeps()}
}

// keeps is the longest pause between two confirms that keeps the place.
func (e *entry) keeps() time.Duration { return e.locker.engine.Wait(e.grant.Tag) / 3 }
