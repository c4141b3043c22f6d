package multilock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// acquisition is one call of TryAcquire, Enqueue or Acquire on its way.
type acquisition struct {
	locker   *Locker
	filter   engine.Filter
	document string // the key of its line, where the filter tells
	request  engine.Request
	into     any
	shared   bool // another one's entry will do
	timeout  time.Duration
	begun    time.Time
	seen     *engine.Image // the last one that it was answered with
}

// answer is what an acquire or confirm came back with.
type answer struct {
	outcome engine.Outcome
	image   *engine.Image
	sent    engine.Reading // before the attempt that was answered
	lease   *doclock.Lease // of an entry that was there already, and nothing else
	err     error
}

// arrive sends one acquire. The ticket is granted or waiting.
func (a *acquisition) arrive(ctx context.Context) (*Ticket, error) {
	got, gaveUp := attempt.Run(ctx, &a.locker.ops, func() answer { return a.send(ctx) }, a.undo)
	if gaveUp != nil {
		return nil, errors.Join(gaveUp, doclock.ErrOutcomeUnknown)
	}
	if got.err != nil {
		return nil, got.err
	}
	a.seen = got.image
	switch got.outcome {
	case engine.Granted, engine.Waiting:
		return newTicket(a, got)
	case engine.Conflict:
		a.filter = a.filter.At(a.locker.engine.Pin(got.image))
		return nil, a.conflict(got.image, nil)
	default:
		return nil, doclock.ErrNotFound
	}
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
		settle = attempt.Once
	}
	e := a.locker.engine
	unsure, err := settle(ctx, a.timeout, func(ctx context.Context) (err error) {
		got.sent = e.Clocks()
		got.outcome, got.image, err = e.Acquire(ctx, a.filter, a.request)
		return err
	})
	switch {
	case err == nil:
		return got
	case unsure == nil:
		return answer{err: explain("acquire", err)}
	default:
		a.release(a.filter.Pin, a.request.ID)
		return answer{err: fmt.Errorf("%w: acquire: %w", doclock.ErrOutcomeUnknown, unsure)}
	}
}

// undo releases what an acquire entered after its caller had given up.
func (a *acquisition) undo(got answer) {
	if got.err == nil && (got.outcome == engine.Granted || got.outcome == engine.Waiting) {
		a.release(a.locker.engine.Pin(got.image), a.request.ID)
	}
}

// release removes the entry in the background.
func (a *acquisition) release(pin engine.Pin, id uuid.UUID) {
	a.locker.ops.Go(func() { _ = a.remove(pin, id) })
}

// remove removes the entry by its id, whatever became of it. Without a pin the
// server has to look through the collection. It is bounded by the entry's
// life: after it others may prune the entry themselves.
func (a *acquisition) remove(pin engine.Pin, id uuid.UUID) error {
	e := a.locker.engine
	ctx, cancel := context.WithTimeout(context.Background(), e.Lease(a.request.Tag)+e.Tolerance)
	defer cancel()
	g := engine.Grant{Pin: pin, Tag: a.request.Tag, ID: id}
	unsure, err := attempt.Settle(ctx, a.timeout, func(ctx context.Context) error {
		_, err := e.Release(ctx, g)
		return err
	})
	switch {
	case err == nil:
		return nil
	case unsure == nil:
		return explain("release", err)
	default:
		return fmt.Errorf("%w: release: %w", doclock.ErrOutcomeUnknown, unsure)
	}
}

// conflict explains an image to the caller.
func (a *acquisition) conflict(img *engine.Image, own *engine.Entry) error {
	entries, free := a.locker.engine.InTheWay(img, a.request.Tag, own)
	if len(entries) == 0 {
		return fmt.Errorf("%w: document %s was left as it is, though nothing in its lock is in the way of %q", doclock.ErrForeignLock, img.ID, a.request.Tag)
	}
	c := &doclock.ConflictError{Tag: a.request.Tag, DocumentID: img.ID, RetryAfter: free}
	for _, e := range entries {
		h := doclock.Holder{Tag: e.Tag, ID: e.ID, Owner: e.Owner, Since: e.Since, Waiting: !e.Held()}
		if !img.Whole() { // which has no clock
			h.Remaining = e.Expires.Sub(img.Now)
		}
		c.Holders = append(c.Holders, h)
	}
	return c
}

// hold makes the lease of what was granted.
func (a *acquisition) hold(g engine.Grant, sent engine.Reading) *doclock.Lease {
	if a.shared {
		return a.locker.leases.Share(g, sent)
	}
	return a.locker.leases.New(g, sent)
}

// decode gives the caller the document, in the caller's own goroutine: a
// command whose caller gave up must not write into the caller's memory. A
// lease whose document can't be decoded is released, also where the caller's
// own decoding panics.
func (a *acquisition) decode(img *engine.Image, lease *doclock.Lease) error {
	if a.into == nil {
		return nil
	}
	decoded := false
	defer func() {
		if !decoded {
			a.locker.ops.Go(func() { _ = lease.Release(context.Background()) })
		}
	}()
	if err := a.locker.engine.Decode(img, a.into); err != nil {
		return fmt.Errorf("doclock: decode the document into a %T: %w", a.into, err)
	}
	decoded = true
	return nil
}

// renamed starts over under a new id: an id serves one entry only.
func (a *acquisition) renamed() { a.request.ID = uuid.New() }

// explain names the causes that a user can do something about.
func explain(command string, err error) error {
	failure := engine.AsFailure(err)
	if failure.Again {
		return fmt.Errorf("%w: %w", doclock.ErrNotFound, err)
	}
	switch failure.Cause {
	case engine.CauseForeign:
		return fmt.Errorf("%w: %w", doclock.ErrForeignLock, err)
	case engine.CauseUnsupported:
		return fmt.Errorf("%w: %w", doclock.ErrUnsupportedServer, err)
	case engine.CauseValidator:
		return fmt.Errorf("doclock: %s: the collection's validator refuses the lock field; allow it there: %w", command, err)
	case engine.CauseView:
		return fmt.Errorf("doclock: %s: the collection is a view; lock in the collection behind it: %w", command, err)
	case engine.CauseCapped:
		return fmt.Errorf("doclock: %s: the collection is capped, its documents can't grow; lock in another one: %w", command, err)
	case engine.CauseShardKey:
		return fmt.Errorf("doclock: %s: the collection is sharded; the filter needs an equality on every field of its shard key, and the Locker the option ShardKey: %w", command, err)
	default:
		return fmt.Errorf("doclock: %s: %w", command, err)
	}
}
