package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file has what every command begins with: what is refused at once, the wait for
// its gates, and the caller who may give up. Update is the simplest of them.

// ready refuses what can be refused before anything is sent.
func (l *Lease) ready(ctx context.Context) error {
	if engine.InTransaction(ctx) {
		return l.inTransaction()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOpen() {
		return l.Released()
	}
	return nil
}

// lock waits for a command's gate. If ctx ends first, the reason may be that the command
// before can't be sent.
func (l *Lease) lock(ctx context.Context, g attempt.Gate) error {
	if g.Lock(ctx) == nil {
		return nil
	}
	return l.leftBefore(ctx)
}

// leftBefore is the error of a caller whose context ends while he waits for a gate.
func (l *Lease) leftBefore(ctx context.Context) error {
	return oneline.Join(&notExecuted{l.notSent(ctx), true}, l.lostByNow())
}

// lostByNow is the loss of the lease, or nil.
func (l *Lease) lostByNow() error {
	if err := l.err(); errors.Is(err, doclock.ErrLost) {
		return err
	}
	return nil
}

// lockWrites waits for the writing gate, and for the end of all transactions. A lease gets its
// fences under it.
func (l *Lease) lockWrites(ctx context.Context) error {
	if err := l.lock(ctx, l.writing); err != nil {
		return err
	}
	if err := l.stopTransactions(ctx); err != nil {
		l.writing.Unlock()
		return err
	}
	return nil
}

// tryLockWrites doesn't wait.
func (l *Lease) tryLockWrites() bool {
	if !l.writing.TryLock() {
		return false
	}
	if f := l.fences.Load(); f != nil && !f.places.TryFill() {
		l.writing.Unlock()
		return false
	}
	return true
}

func (l *Lease) unlockWrites() {
	l.allowTransactions()
	l.writing.Unlock()
}

// lockAll waits for all gates, so that no other command is under way.
func (l *Lease) lockAll(ctx context.Context) error {
	if err := l.lockWrites(ctx); err != nil {
		return err
	}
	if err := l.lock(ctx, l.renewing); err != nil {
		l.unlockWrites()
		return err
	}
	return nil
}

func (l *Lease) unlockAll() {
	l.renewing.Unlock()
	l.unlockWrites()
}

// run runs op to its end, and returns at once if the caller gives up first. If
// nothing was sent by then, nothing will be, and the error says so ([revoked]).
func (l *Lease) run(ctx context.Context, sending *engine.Sending, op func(context.Context) error) error {
	err, gaveUp := runFor(ctx, l, sending, op, func(error) {})
	if gaveUp != nil {
		return gaveUp
	}
	return err
}

// runFor is run for a result that is more than an error. The result goes to
// abandoned if the caller gives up.
func runFor[T any](ctx context.Context, l *Lease, sending *engine.Sending, op func(context.Context) T, abandoned func(T)) (got T, err error) {
	ctx, stop := l.callerContext(ctx)
	defer stop()
	ctx = engine.WithSending(ctx, sending)
	got, gone := attempt.Run(ctx, l.ops, func() T { return op(ctx) }, abandoned)
	switch {
	case gone == nil:
		return got, nil
	case sending.Revoke():
		return got, &notExecuted{l.notSent(ctx), true}
	default:
		return got, l.gaveUp(ctx)
	}
}

// callerContext ends when the caller gives up: with ctx, unless this lease ended
// ctx. A caller who releases a lease in the context that KeepAlive made still waits
// for the answer, until the context ends that KeepAlive was given. If ctx does not end
// (the caller detached it, [context.WithoutCancel]), that context doesn't count.
func (l *Lease) callerContext(ctx context.Context) (context.Context, context.CancelFunc) {
	caller, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unfollow := context.AfterFunc(ctx, func() {
		if context.Cause(ctx) != l.over() {
			attempt.Relay(ctx, cancel)
			return
		}
		outer, stop := l.outer(ctx), context.CancelFunc(func() {})
		if deadline, limited := ctx.Deadline(); limited { // ctx has ended before
			outer, stop = context.WithDeadline(outer, deadline)
		}
		unfollowOuter := context.AfterFunc(outer, func() { attempt.Relay(outer, cancel) })
		context.AfterFunc(caller, func() { unfollowOuter(); stop() })
	})
	return caller, func() {
		unfollow()
		cancel(nil)
	}
}

// callerLeft says that the caller had given up before the call.
func (l *Lease) callerLeft(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	if context.Cause(ctx) != l.over() {
		return true
	}
	deadline, limited := ctx.Deadline()
	return l.outer(ctx).Err() != nil || limited && !time.Now().Before(deadline)
}

// settle sends a command until it is answered, for as long as the entry may be kept.
func settle[T any](ctx context.Context, l *Lease, send func(context.Context) (T, error)) (got T, unsure, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.kept())
	defer cancel()
	unsure, err = attempt.Settle(ctx, l.bounds(), func(ctx context.Context) (err error) {
		got, err = send(ctx)
		return err
	})
	return got, unsure, err
}

// read reads the document for the verdict on a command of unknown outcome.
func (l *Lease) read(ctx context.Context) (*engine.Image, error) {
	img, _, err := settle(attempt.Detached(ctx), l, func(ctx context.Context) (*engine.Image, error) { return l.commands.Read(ctx, l.grant.Pin) })
	return img, err
}

// ownEntry is the grant's own entry in the image.
func ownEntry(img *engine.Image, g engine.Grant) (engine.Entry, bool) {
	if img == nil {
		return engine.Entry{}, false
	}
	own, present := img.Lock.Find(g.Tag, g.ID)
	return own, present && own.Fence == g.Fence
}

func (l *Lease) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := l.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	if err := l.lock(ctx, l.writing); err != nil {
		return err
	}
	if err := l.ready(ctx); err != nil { // a command before this one has ended the lease
		l.writing.Unlock()
		return err
	}
	err = l.run(ctx, l.sending(nil), func(ctx context.Context) error {
		defer l.writing.Unlock()
		return l.write(ctx, u)
	})
	l.emitUnknown(ctx, nil, err)
	return engine.Raise(err)
}

// prepare checks an update and encodes it, in the caller's goroutine.
func (l *Lease) prepare(ctx context.Context, update any, opts []options.Lister[options.UpdateOneOptions]) (*engine.Update, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	u, err := l.engine.ParseUpdate(update, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: update: %v: %w", doclock.ErrInvalidArgument, l.name(), err)
	}
	if u.Collates && l.grant.Batch {
		return nil, fmt.Errorf("%w: update: %v is of a batch: by a collation another document may have its _id; leave it out", doclock.ErrInvalidArgument, l.name())
	}
	return u, nil
}

// write sends a guarded write under the next number.
func (l *Lease) write(ctx context.Context, u *engine.Update) error {
	if err := l.declaredLoss(); err != nil {
		return err
	}
	l.writes++
	k := l.writes
	var got engine.Answer
	unsure, err := attempt.Settle(ctx, l.bounds(), func(ctx context.Context) (err error) {
		got, err = l.commands.Write(ctx, l.grant, u, k)
		return err
	})
	switch {
	case err != nil:
		return l.noAnswer("update", unsure, err)
	case got.Outcome == engine.Applied:
		return nil
	case unsure == nil:
		return l.lose(got)
	}
	// An earlier attempt may have been applied: the entry knows.
	img, err := l.read(ctx)
	if err != nil {
		return l.unknown("update", oneline.Join(unsure, err))
	}
	own, present := ownEntry(img, l.grant)
	switch {
	case present && own.Writes >= k:
		return nil
	case !present:
		_ = l.lose(engine.Answer{Image: img, Gone: img == nil})
	}
	return l.unknown("update", unsure)
}

// provesNotApplied says that the absence of the lease's id from `done` proves
// that its last write was not applied (rule 18): an id that was there at the grant is
// there still, so nothing was pushed out of `done`, and nobody erased or replaced it.
func provesNotApplied(img *engine.Image, g engine.Grant) bool {
	if img == nil || img.Lock.Fence < g.Fence {
		return false
	}
	if _, present := ownEntry(img, g); present {
		return false
	}
	return g.LastDone != uuid.Nil && img.Lock.FinishedBy(g.LastDone)
}
