package multilock

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	arrival              // of whoever has the turn
	turn    attempt.Gate // one command at a time; what it found is written before it ends
	waits   attempt.Gate // one Wait at a time is in the wait queue
	hands   attempt.Gate // one caller at a time decodes the document, or has the lease of who did

	mu      sync.Mutex
	got     granted       // the last answer's image; with the lease once granted
	came    time.Duration // when that answer came
	handed  bool          // to a caller, who decodes the document first
	over    error         // why there will be none
	retryAt time.Time
}

// enqueue sends one acquire, in the goroutine that owns it until the caller has the ticket.
func (c *call) enqueue(ctx context.Context) (*Ticket, error) {
	if err := c.nested(); err != nil {
		return nil, err
	}
	t := &Ticket{arrival: c.arrival(), turn: make(attempt.Gate, 1), waits: make(attempt.Gate, 1), hands: make(attempt.Gate, 1)}
	err, gone := attempt.Run(ctx, c.locker.ops, func() error {
		got, err := t.ask(ctx, false)
		if got.lease == nil && t.place == nil || isNested(err) || ctx.Err() != nil {
			_, err = t.end(ctx, got, err, nil)
			return cmp.Or(err, attempt.Ended(ctx))
		}
		if t.filter.Pin == nil { // the ticket is for the document that the filter has found
			t.call = c.narrow(c.filter.At(c.locker.engine.Pin(got.image)))
		}
		if err = t.note(got, err); err != nil {
			t.observed.emitWaiting(err)
		}
		return nil
	}, func(err error) {
		if err == nil {
			_, _ = t.end(ctx, t.got, nil, nil)
		}
	})
	if err := cmp.Or(gone, err); err != nil {
		return nil, err
	}
	if t.Granted() {
		_, err = t.handOver(context.Background())
	}
	return t, err
}

// ID is the entry's id, and the lease's.
func (t *Ticket) ID() uuid.UUID { return t.id }

// Tag is the tag that was asked for.
func (t *Ticket) Tag() string { return t.request.Tag }

// DocumentID is the _id of the document.
func (t *Ticket) DocumentID() bson.RawValue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got.image.ID
}

// Granted reports whether Confirm returns a lease without asking the server.
func (t *Ticket) Granted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got.lease != nil
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
// deleted; [doclock.ErrNotFound], that the filter's conditions hold no longer. After a
// Cancel the error is [doclock.ErrReleased].
//
// If ctx ends during the command, Confirm returns at once with ctx's error. The
// ticket stays, and that command may grant it. Every error is a
// [doclock.ErrNotAcquired].
func (t *Ticket) Confirm(ctx context.Context) (doclock.Lease, error) { return t.run(ctx, t.confirm) }

// Wait waits until the lock is granted or ctx ends, and confirms meanwhile. A
// release by the same Locker wakes it. If ctx ends, the entry stays: call Wait again
// in time (see Ticket), or cancel it. The error is ctx's, joined with the last
// conflict, or one of Confirm's. A Wait that would wait for a lease of ctx is refused, as
// an acquire is; the entry stays. Every error is a [doclock.ErrNotAcquired].
func (t *Ticket) Wait(ctx context.Context) (doclock.Lease, error) { return t.run(ctx, t.wait) }

// run runs one of both to its end, and hands over what is granted.
func (t *Ticket) run(ctx context.Context, op func(context.Context) error) (doclock.Lease, error) {
	if engine.InTransaction(ctx) {
		return nil, notAcquired(errInTransaction)
	}
	held, err := (*lease.Lease)(nil), attempt.Ended(ctx)
	if ctx.Err() == nil {
		counted := t.observed.count(ctx)
		refused, gone := attempt.Run(ctx, t.locker.ops, func() error { return op(counted) }, func(error) {})
		if err = cmp.Or(gone, refused); err == nil {
			held, err = t.handOver(ctx)
		}
	}
	return lease.Give(held, engine.Raise(t.failed(ctx, err)))
}

func (t *Ticket) confirm(ctx context.Context) error {
	if err := t.turn.Lock(ctx); err != nil {
		return err
	}
	defer t.turn.Unlock()
	_, err := t.step(ctx, nil)
	return err
}

// step reads a handoff's answer, or asks the server, unless the ticket is decided. A handoff of
// unknown outcome was for the ticket's own entry, so a confirm finds the outcome. The caller
// has the turn.
func (t *Ticket) step(ctx context.Context, handed *engine.Answer) (got granted, err error) {
	t.mu.Lock()
	got, err = t.got, t.over
	t.mu.Unlock()
	switch {
	case got.lease != nil || err != nil:
		return got, err
	case handed != nil && handed.Image != nil:
		got, err = t.judge(*handed)
	default:
		got, err = t.ask(ctx, false)
	}
	if t.slot != nil { // the entry stays, though the caller has left
		t.slot()
		t.slot = nil
	}
	return got, t.note(got, err)
}

// note notes an answer: nil means granted.
func (t *Ticket) note(got granted, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if got.image != nil {
		t.got, t.came = got, t.locker.queues.Now()
	}
	switch {
	case got.lease != nil:
		return nil
	case errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrNotFound):
		t.over = err
		t.observed.emitEnd(context.Background(), nil, err)
		return err
	case got.image == nil: // no answer
		return err
	}
	if errors.Is(err, doclock.ErrConflict) { // a repeated acquire isn't decided anew, and may find no entry in the way
		t.progress.note(err)
	}
	t.retryAt = time.Now().Add(t.pause(err))
	return err
}

// pause is how long to wait after a conflict.
func (t *Ticket) pause(conflict error) time.Duration {
	waited := t.locker.queues.Now() - t.begun
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
	return min(waitqueue.Pause(t.locker.engine.Poll(), waited, waited, free, ahead), t.confirmPause())
}

// wait waits in the document's wait queue, as an Acquire with a waiting entry.
func (t *Ticket) wait(ctx context.Context) error {
	if err := t.waits.Lock(ctx); err != nil {
		return err
	}
	defer t.waits.Unlock()
	inside := *t.call
	inside.holding = slices.Concat(inside.holding, lease.HeldBy(ctx))
	t.turn <- struct{}{}
	t.mu.Lock()
	known := waitqueue.Known{Place: t.queuePlace(), Image: t.got.image, Sent: t.got.sent, Answered: t.came}
	decided := t.got.lease != nil || t.over != nil
	t.mu.Unlock()
	t.turn.Unlock()
	if decided {
		return nil
	}
	w := t.locker.queues.Enter(t.document, inside.waiter(t.id), known)
	defer t.locker.queues.Leave(w)
	_, err := t.await(ctx, w, func(handed *engine.Answer) (granted, waitqueue.Result, error) {
		t.turn <- struct{}{}
		defer t.turn.Unlock()
		got, err := t.step(ctx, handed)
		if errors.Is(err, doclock.ErrConflict) {
			own, _ := got.image.Lock.Find(t.Tag(), t.id)
			if refused := inside.conflict(got.image, &own); isNested(refused) {
				err = refused
			}
		}
		return got, t.result(got), err
	})
	return err
}

// handOver returns the lease to the caller, if there is one. The first caller decodes the
// document, under no mutex and without the turn: his own code may ask the ticket, wait,
// or panic. The others wait for him. After a panic the ticket is over.
func (t *Ticket) handOver(ctx context.Context) (held *lease.Lease, err error) {
	if err := t.hands.Lock(ctx); err != nil {
		return nil, err
	}
	defer t.hands.Unlock()
	t.mu.Lock()
	got, over, handed := t.got, t.over, t.handed
	t.handed = got.lease != nil
	t.mu.Unlock()
	if got.lease == nil || handed {
		return got.lease, over
	}
	return t.decode(got)
}

func (t *Ticket) decode(got granted) (held *lease.Lease, err error) {
	t.locker.ops.Enter()
	defer t.locker.ops.Leave()
	err = errPanicked // unless the caller's code returns
	defer func() {
		t.mu.Lock()
		t.got.lease, t.over = held, err
		t.mu.Unlock()
		t.observed.emitEnd(context.Background(), held, err)
	}()
	return t.deliver(got)
}

// Cancel leaves the document's queue: it removes the ticket's entry. It does nothing
// if the ticket is lost, or the caller has its lease, also from an Enqueue that was
// granted at once: release the lease then. One command removes tickets of one
// document that are cancelled together. If ctx ends first, Cancel returns ctx's
// error and [doclock.ErrOutcomeUnknown]; after 30 s without an answer it returns the
// driver's error, with an ErrOutcomeUnknown if a command was sent. The removal then goes on
// in the background.
func (t *Ticket) Cancel(ctx context.Context) error {
	answer := make(chan error, 1)
	t.locker.ops.Go(func() { t.cancel(func(err error) { answer <- err }) })
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = oneline.Join(attempt.Ended(ctx), doclock.ErrOutcomeUnknown)
	}
	t.observed.emitUnknown(err)
	return engine.Raise(err)
}

// cancel removes the entry once no command is under way, and then calls answer.
func (t *Ticket) cancel(answer func(error)) {
	t.turn <- struct{}{}
	over := func(err error) {
		t.turn.Unlock()
		answer(err)
	}
	t.mu.Lock()
	held, nothing := t.got.lease, t.handed || t.over != nil
	if !nothing {
		t.over, t.got.lease = doclock.ErrReleased, nil
		t.observed.emitEnd(context.Background(), nil, t.over)
	}
	t.mu.Unlock()
	switch {
	case nothing:
		over(nil)
	case held != nil: // granted to a caller who had given up
		over(t.locker.cleanup.takeBack(context.Background(), t.request, held))
	default:
		t.discard(over)
	}
}
