package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// verdict is how giving the lock away ended.
type verdict struct {
	err  error
	done chan struct{}
}

// Release implements doclock.Lease.
func (l *Handle) Release(ctx context.Context) error {
	if l.engine == nil {
		return ErrLost
	}
	if attempt.InTransaction(ctx) {
		return errInTransaction
	}
	v, first := l.give()
	if first {
		ctx := attempt.Detached(ctx)
		l.ops.Go(func() {
			l.writing.take()
			defer l.writing.leave()
			if l.share != nil {
				l.settle(v, l.share.leave(ctx, l))
				return
			}
			l.renewing.take()
			defer l.renewing.leave()
			next := l.succession()
			l.settle(v, l.release(ctx, next))
			next.end()
		})
	}
	select {
	case <-v.done:
		return v.err
	default:
	}
	ctx, stop := l.patience(ctx)
	defer stop()
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

// release sends the release and judges its answer. ctx has no end: the lease
// has one, after which others are let in without a release. A handoff that
// finds nothing is followed by a plain release: the id may stand there with
// another token. So a lease is released that is known to be lost: a late
// duplicate may have brought its id back. But no answer to that, nor the want
// of one, makes it a lease that was kept.
func (l *Handle) release(ctx context.Context, next *succession) error {
	known := l.isLost()
	// It is sent, whoever has given up.
	ctx = engine.WithSending(ctx, &engine.Sending{})
	l.finish(ErrReleased) // before anything is sent
	ctx, cancel := context.WithTimeout(ctx, l.kept())
	defer cancel()
	got, first := engine.Answer{Outcome: engine.Released}, l.engine.Clocks()
	unsure, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) error {
		done, err := next.handOff(ctx, first)
		if !done && err == nil {
			got, err = l.engine.Release(ctx, l.grant)
		}
		return err
	})
	switch {
	case known:
		return ErrLost
	case err != nil && unsure == nil:
		return fmt.Errorf("doclock: release: %w", err)
	case err != nil:
		return unknown("release", unsure)
	default:
		return l.departed("release", got.Outcome, unsure)
	}
}

// departed is the verdict on a command that takes the entry out of the
// document, and was answered.
func (l *Handle) departed(command string, outcome engine.Outcome, unsure error) error {
	switch {
	case outcome == engine.Released:
		return nil
	case unsure == nil:
		return ErrLost
	case l.left() > 0: // nobody but an earlier attempt can have removed it
		return nil
	default:
		return unknown(command, unsure)
	}
}

// giveAway ends the lease with a command that does something else too: by
// itself, or as one of those who share an entry. Both return the command's
// verdict and the release's.
func (l *Handle) giveAway(ctx context.Context, alone func(context.Context, *succession) (err, released error), shared func(context.Context) (err, released error)) error {
	if err := l.enter(ctx, l.writing); err != nil {
		return err
	}
	if err := l.enter(ctx, l.renewing); err != nil {
		l.writing.leave()
		return err
	}
	v, first := l.give()
	if !first {
		l.renewing.leave()
		l.writing.leave()
		return ErrReleased
	}
	return l.run(ctx, func(patient context.Context) error {
		defer l.writing.leave()
		defer l.renewing.leave()
		if l.share != nil {
			err, released := shared(patient)
			l.settle(v, released)
			return err
		}
		next := l.succession()
		defer next.end()
		err, released := alone(patient, next)
		l.settle(v, released)
		return err
	})
}

// given is the verdict on the lock that is being given away, or nil.
func (l *Handle) given() *verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// give claims the right to give the lock away; only the first caller has it.
func (l *Handle) give() (v *verdict, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone != nil {
		return l.gone, false
	}
	l.gone = &verdict{done: make(chan struct{})}
	return l.gone, true
}

// settle publishes the verdict. Where the server refused the release itself,
// the entry still stands and a later call may try again.
func (l *Handle) settle(v *verdict, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.err = err
	close(v.done)
	if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrOutcomeUnknown) {
		l.gone = nil
		return
	}
	if l.after != nil {
		l.after()
	}
}
