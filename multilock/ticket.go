package multilock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Ticket is a place in a document's queue: what monglock's assertive acquire
// leaves. It is granted or waiting. A waiting entry lives a WaitTTL from one
// confirm to the next; one that was let go by is lost, and never rejoins in
// silence at the end of the queue. A Ticket is safe for concurrent use.
type Ticket struct {
	a      *acquisition
	grant  engine.Grant  // of the arrival; it never changes, and needs no lock
	unsure unsure        // attempts of the arrival
	turn   chan struct{} // one command at a time; what it found is written before it ends

	mu      sync.Mutex
	lease   *lease.Handle // set once granted
	image   *engine.Image // of the grant, until it is decoded
	seen    *engine.Image // of the last answer
	handed  bool          // the caller has the lease
	over    error         // why there will be none
	refusal error         // the last conflict
	retryAt time.Time
}

// newTicket makes the ticket of an entry that stands in the document. The
// caller is handed the lease of one that is granted.
func newTicket(a *acquisition, got answer) (*Ticket, error) {
	t := &Ticket{
		a:      a,
		grant:  a.locker.engine.Grant(got.Image, a.request.Tag, a.request.ID),
		unsure: a.unsure,
		turn:   make(chan struct{}, 1),
	}
	if t.judge(got) == nil {
		if _, err := t.handOver(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// ID is the entry's id, and the lease's.
func (t *Ticket) ID() uuid.UUID { return t.grant.ID }

// Tag is the tag that was asked for.
func (t *Ticket) Tag() string { return t.grant.Tag }

// DocumentID is the _id of the document.
func (t *Ticket) DocumentID() bson.RawValue { return t.grant.DocID }

// Granted reports whether Confirm returns a lease without asking the server.
func (t *Ticket) Granted() bool {
	return t.granted() != nil
}

// granted is the lease, or nil; of no ticket too.
func (t *Ticket) granted() *lease.Handle {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease
}

// RetryAt is when to confirm next: often enough to keep the place, and no
// later than the lock can fall free by itself.
func (t *Ticket) RetryAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retryAt
}

// Confirm asks whether it is the ticket's turn, in one command, and extends
// its waiting if it is not: the error is then a [*doclock.ConflictError]. Once
// granted it returns the same lease without a command. [doclock.ErrLost] means
// that the entry is gone: its waiting ran out, or the document is deleted.
//
// If ctx ends during the command, Confirm returns at once with ctx's error; the
// ticket stays, and may be granted by it. Every error is a
// [doclock.ErrNotAcquired].
func (t *Ticket) Confirm(ctx context.Context) (*doclock.Lease, error) {
	if attempt.InTransaction(ctx) {
		return nil, errInTransaction
	}
	held, _, err := t.ask(ctx, func(done func()) { done() })
	return (*doclock.Lease)(held), t.a.failed(ctx, err)
}

// ask is Confirm. Where the caller has gone before the command was answered,
// abandoned is called at the command's end.
func (t *Ticket) ask(ctx context.Context, abandoned func(done func())) (_ *lease.Handle, gone bool, _ error) {
	if ctx.Err() != nil {
		return nil, false, attempt.Ended(ctx)
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, attempt.Ended(ctx)
	}
	if t.decided() {
		<-t.turn
		held, err := t.handOver()
		return held, false, err
	}
	refused, gaveUp, err := run(ctx, t.a, nil, func() error {
		defer func() { <-t.turn }()
		return t.confirm(ctx)
	}, func(_ error, done func()) { abandoned(done) })
	switch {
	case err != nil: // nothing was sent
		<-t.turn
		return nil, false, err
	case gaveUp != nil:
		return nil, true, gaveUp
	case refused != nil:
		return nil, false, refused
	}
	held, err := t.handOver()
	return held, false, err
}

// Wait confirms until the lock is granted or ctx ends. The end of ctx keeps
// the entry: Wait may be called again within a WaitTTL, or the ticket
// abandoned. Its error joins ctx's with the last conflict.
func (t *Ticket) Wait(ctx context.Context) (*doclock.Lease, error) {
	for {
		if !t.Granted() {
			if err := t.sleep(ctx); err != nil {
				return nil, t.a.failed(ctx, cutShort(ctx, err, t.conflict()))
			}
		}
		held, err := t.Confirm(ctx)
		if !errors.Is(err, doclock.ErrConflict) {
			return held, cutShort(ctx, err, t.conflict())
		}
	}
}

// sleep waits until it is time to confirm.
func (t *Ticket) sleep(ctx context.Context) error {
	timer := time.NewTimer(max(0, time.Until(t.RetryAt())))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-t.a.locker.ops.Closing():
		return doclock.ErrClosed
	}
}

// last is the image of the last answer.
func (t *Ticket) last() *engine.Image {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// conflict is the last one that the ticket met.
func (t *Ticket) conflict() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refusal
}

// decided says that the ticket needs to ask the server no more.
func (t *Ticket) decided() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease != nil || t.over != nil
}

// handOver gives the lease to the caller, if there is one. It decodes the
// document for the caller, and must not be called within the turn: the caller's
// own decoding may panic. The ticket is over then.
func (t *Ticket) handOver() (*lease.Handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease == nil || t.handed {
		return t.lease, t.over
	}
	held := t.lease
	t.lease, t.over = nil, doclock.ErrReleased
	if err := t.a.decode(t.image, held); err != nil {
		t.over = err
		return nil, err
	}
	t.lease, t.over, t.handed, t.image = held, nil, true, nil
	return held, nil
}

func (t *Ticket) confirm(ctx context.Context) error {
	e := t.a.locker.engine
	var got answer
	unsure, err := attempt.Settle(ctx, t.a.timeout, func(ctx context.Context) (err error) {
		got.Answer, err = e.Confirm(ctx, t.grant.Pin, t.a.request)
		return err
	})
	switch {
	case err == nil:
		return t.judge(got)
	case unsure == nil:
		return t.a.refused("confirm", err)
	default:
		return explain("confirm", unsure)
	}
}

// judge makes of an answer what it means for the ticket.
func (t *Ticket) judge(got answer) error {
	a, e := t.a, t.a.locker.engine
	t.mu.Lock()
	defer t.mu.Unlock()
	if got.Image != nil {
		t.seen = got.Image
	}
	if got.Outcome == engine.Lost {
		t.over = doclock.ErrLost
		a.discard(t.grant.Pin, t.grant.ID, t.unsure, false, nil)
		return t.over
	}
	own, _ := got.Image.Lock.Find(t.grant.Tag, t.grant.ID)
	if own.Seq != t.grant.Seq { // pruned, and entered anew by a late duplicate
		t.over = doclock.ErrLost
		a.discard(t.grant.Pin, t.grant.ID, t.unsure, true, nil)
		return t.over
	}
	if got.Outcome == engine.Waiting {
		conflict := a.conflict(got.Image, &own)
		if errors.Is(conflict, doclock.ErrConflict) { // a repeated acquire isn't judged anew, and may find nobody in the way
			t.refusal = conflict
		}
		t.retryAt = time.Now().Add(t.pause(conflict))
		return conflict
	}
	held := e.Grant(got.Image, t.grant.Tag, t.grant.ID)
	t.lease, t.image = a.hold(held, got.Sent), got.Image
	return nil
}

// pause is how long to wait after a conflict.
func (t *Ticket) pause(conflict error) time.Duration {
	waited := time.Since(t.a.begun)
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
	return t.inTime(pause(waited, waited, free, ahead))
}

// inTime cuts a pause so that the place is not lost.
func (t *Ticket) inTime(d time.Duration) time.Duration {
	return min(d, t.a.locker.engine.Wait(t.grant.Tag)/3)
}
