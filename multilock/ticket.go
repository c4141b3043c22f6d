package multilock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Ticket is a place in a document's queue, as monglock's assertive acquire makes it.
// It is granted or waiting. A waiting entry lives for the tag's TTL, or 5 s if that
// is less, after each confirm. A ticket that was not confirmed in time is lost, and
// doesn't join the queue again. A Ticket is safe for concurrent use.
type Ticket struct {
	entry    *entry
	commands chan struct{} // one command at a time; what it found is written before it ends
	waits    chan struct{} // one Wait at a time is in the wait queue

	mu       sync.Mutex
	lease    *lease.Handle // set once granted
	seen     engine.Answer // the last one with an image
	answered time.Duration // when it came
	answers  int           // how many came
	handed   chan struct{} // made by the caller who decodes the document, and closed when he has the lease
	over     error         // why there will be none
	refusal  error         // the last conflict
	retryAt  time.Time
}

// enqueue sends one acquire. If the ticket is granted, the caller has the lease.
func (a *asked) enqueue(ctx context.Context) (t *Ticket, err error) {
	if err := a.nested(); err != nil {
		return nil, err
	}
	s, got := newAttempts(a, nil).send(ctx, false)
	if s.err == nil {
		a.observed.sees(got.Image)
		s.entry, s.err = s.arrived(got)
	}
	if s.err == nil {
		t, s.err = newTicket(s.entry, got)
	}
	if s.err != nil {
		s.cleanUp(nil)
		return nil, s.err
	}
	return t, nil
}

// newTicket makes the ticket of an entry.
func newTicket(e *entry, got engine.Answer) (*Ticket, error) {
	if e.filter.Pin == nil { // the ticket is for the document that the filter has found
		e.asked = e.of(e.filter.At(e.grant.Pin))
	}
	t := &Ticket{entry: e, commands: make(chan struct{}, 1), waits: make(chan struct{}, 1)}
	if refused := t.judge(got); isNested(refused) {
		e.withdraw(nil, func(error) {})
		return nil, refused
	} else if refused != nil {
		e.observed.emitWaiting(refused)
		return t, nil
	}
	if _, err := t.handOver(context.Background()); err != nil {
		return nil, err
	}
	return t, nil
}

// ID is the entry's id, and the lease's.
func (t *Ticket) ID() uuid.UUID { return t.entry.grant.ID }

// Tag is the tag that was asked for.
func (t *Ticket) Tag() string { return t.entry.grant.Tag }

// DocumentID is the _id of the document.
func (t *Ticket) DocumentID() bson.RawValue { return t.entry.grant.Pin.ID() }

// Granted reports whether Confirm returns a lease without asking the server.
func (t *Ticket) Granted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease != nil
}

// RetryAt is when to confirm next: in time to keep the place, and no later than the
// moment when the lock becomes free if nobody renews or releases it.
func (t *Ticket) RetryAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retryAt
}

// Confirm asks in one command whether it is the ticket's turn. If it is not, the
// command extends the waiting entry, and the error is a [*doclock.ConflictError].
// Once granted, Confirm returns the same lease and sends nothing. While another caller
// decodes the document ([doclock.Into]), it waits for him until ctx ends.
// [doclock.ErrLost] means that the entry is gone: it has expired, or the document was
// deleted. After a Cancel the error is [doclock.ErrReleased].
//
// If ctx ends during the command, Confirm returns at once with ctx's error. The
// ticket stays, and that command may grant it. Every error is a
// [doclock.ErrNotAcquired].
func (t *Ticket) Confirm(ctx context.Context) (doclock.Lease, error) {
	if engine.InTransaction(ctx) {
		return nil, notAcquired(errInTransaction)
	}
	held, _, err := t.confirm(ctx, nil)
	return lease.Give(held, engine.Raise(t.entry.failed(ctx, err, nil)))
}

// confirm is Confirm, of a ticket that waits in the wait queue or doesn't (nil). It says
// whether the caller has left before the command is answered.
func (t *Ticket) confirm(ctx context.Context, w *waitqueue.Waiter) (_ *lease.Handle, gone bool, _ error) {
	if ctx.Err() != nil {
		return nil, false, attempt.Ended(ctx)
	}
	ctx = t.entry.observed.counted(ctx)
	select {
	case t.commands <- struct{}{}:
	case <-ctx.Done():
		return nil, false, attempt.Ended(ctx)
	}
	if t.decided() {
		<-t.commands
		held, err := t.handOver(ctx)
		return held, false, err
	}
	refused, gone, err := run(ctx, t.entry.asked, w, nil, func() error {
		defer func() { <-t.commands }()
		return t.read(t.entry.confirm(ctx))
	}, func(_ error, done func()) { done() })
	if err != nil && !gone { // nothing was sent
		<-t.commands
	}
	if err := cmp.Or(err, refused); err != nil {
		return nil, gone, err
	}
	held, err := t.handOver(ctx)
	return held, false, err
}

func (t *Ticket) read(got reply) error {
	if got.err != nil {
		return got.err
	}
	return t.judge(got.Answer)
}

// judge applies an answer, while no other command is under way: nil means granted.
func (t *Ticket) judge(got engine.Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease != nil || t.over != nil { // decided meanwhile
		return t.over
	}
	if got.Image != nil {
		t.seen, t.answered = got, t.entry.locker.queues.Now()
		t.answers++
	}
	held, err := t.entry.judge(got)
	switch {
	case held != nil:
		t.lease = held
		return nil
	case errors.Is(err, doclock.ErrLost):
		t.over = err
		t.emitEnd(nil, err)
		return err
	}
	if errors.Is(err, doclock.ErrConflict) { // a repeated acquire isn't decided anew, and may find no entry in the way
		t.refusal = err
	}
	t.retryAt = time.Now().Add(t.pause(err))
	return err
}

// pause is how long to wait after a conflict.
func (t *Ticket) pause(conflict error) time.Duration {
	waited := t.entry.locker.queues.Now() - t.entry.begun
	var free time.Duration
	ahead := 0
	var c *doclock.ConflictError
	if errors.As(conflict, &c) {
		free = c.RetryAfter
		for _, h := range c.Holders {
			if h.Waiting {
				ahead++
			}
		}
	}
	return min(waitqueue.Pause(t.entry.locker.engine.Poll(), waited, waited, free, ahead), t.entry.keeps())
}

// conflict is the last one that the ticket met.
func (t *Ticket) conflict() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refusal
}

// decided says that the ticket need not ask the server again.
func (t *Ticket) decided() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease != nil || t.over != nil
}

// handOver returns the lease to the caller, if there is one. The first caller decodes the
// document, under no mutex and without commands: his own code may ask the ticket, wait,
// or panic. The others wait for him. After a panic the ticket is over.
func (t *Ticket) handOver(ctx context.Context) (held *lease.Handle, err error) {
	t.mu.Lock()
	held, err = t.lease, t.over
	image, handed := t.seen.Image, t.handed
	if held != nil && handed == nil {
		t.handed = make(chan struct{})
	}
	t.mu.Unlock()
	switch {
	case held == nil:
		return nil, err
	case handed == nil:
		return t.decode(image, held)
	}
	select {
	case <-handed:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.lease, t.over
	case <-ctx.Done():
		return nil, attempt.Ended(ctx)
	}
}

func (t *Ticket) decode(image *engine.Image, granted *lease.Handle) (held *lease.Handle, err error) {
	t.entry.locker.ops.Enter()
	defer t.entry.locker.ops.Leave()
	err = errPanicked // unless the caller's code returns
	defer func() {
		t.mu.Lock()
		t.lease, t.over = held, err
		t.mu.Unlock()
		t.emitEnd(held, err)
		close(t.handed)
	}()
	return t.entry.deliver(image, granted, nil)
}

// emitEnd emits how the ticket has ended.
func (t *Ticket) emitEnd(held *lease.Handle, err error) {
	t.entry.observed.emitEnd(context.Background(), held, err)
}

// Cancel leaves the document's queue: it removes the ticket's entry. It does nothing
// if the ticket is lost, or the caller has its lease, also from an Enqueue that was
// granted at once: release the lease then. One command removes tickets of one
// document that are cancelled together. If ctx ends first, Cancel returns ctx's
// error and [doclock.ErrOutcomeUnknown]; after 30 s without an answer it returns the
// driver's error. The removal then goes on in the background.
func (t *Ticket) Cancel(ctx context.Context) error {
	answer := make(chan error, 1)
	t.cancel(func(err error) { answer <- err })
	select {
	case err := <-answer:
		t.entry.observed.emitUnknown(err)
		return engine.Raise(err)
	case <-ctx.Done():
		err := oneline.Join(attempt.Ended(ctx), doclock.ErrOutcomeUnknown)
		t.entry.observed.emitUnknown(err)
		return err
	}
}

// cancel removes the entry once no command is under way, and then calls answer.
func (t *Ticket) cancel(answer func(error)) {
	select {
	case t.commands <- struct{}{}:
		t.withdraw(answer)
	default:
		t.entry.locker.ops.Go(func() {
			t.commands <- struct{}{}
			t.withdraw(answer)
		})
	}
}

// withdraw is cancel while no command is under way.
func (t *Ticket) withdraw(answer func(error)) {
	done := func(err error) {
		<-t.commands
		answer(err)
	}
	t.mu.Lock()
	held, nothing := t.lease, t.handed != nil || t.over != nil
	if !nothing {
		t.over, t.lease = doclock.ErrReleased, nil
		t.emitEnd(nil, t.over)
	}
	t.mu.Unlock()
	if nothing {
		done(nil)
		return
	}
	t.entry.withdraw(held, done) // held was granted to a caller who had given up
}
