package multilock

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/claims"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
)

// errNoneFree is the end of a claim that has found nothing.
var errNoneFree = fmt.Errorf("%w: none that matches is free", doclock.ErrNotFound)

// claim takes any document that matches the filter and is free (rule 26). Each
// candidate is tried by the ordinary acquire, with the caller's filter and the
// candidate's _id, under an id of its own.
func (a *acquisition) claim(ctx context.Context, once bool) (*lease.Handle, error) {
	all, wanted := a.locker.claims, a.filter
	w := all.Enter(a.request.Tag+"\x00"+wanted.Key(), claims.Request{
		Once: once,
		Asks: wanted.Pin != nil || len(a.locker.engine.ShardKey) == 0, // old routers refuse a filter without the shard key
	})
	defer all.Leave(w)
	none := errNoneFree
	var last error // why the last document was refused
	for {
		if a.account != nil && !once && all.Asleep(w) {
			a.waits(last)
		}
		turn, err := all.Await(ctx, w)
		if err != nil {
			return nil, a.failed(ctx, err, oneline.Join(none, last))
		}
		switch turn.Kind {
		case claims.None:
			return nil, notAcquired(oneline.Join(none, last))
		case claims.Look:
			found, err := a.lookUp(ctx, wanted, turn.Limit)
			if err != nil {
				return nil, a.giveUp(ctx, w, err, oneline.Join(none, last))
			}
			all.Found(w, found)
			continue
		case claims.Ask:
			a.aim(wanted)
		case claims.Try:
			a.aim(wanted.At(turn.Candidate))
		}
		held, err := a.once(ctx)
		if held != nil {
			a.leave(held)
			all.Settle(w, claims.Granted, a.where())
			return held, nil
		}
		outcome, goesOn := a.refusal(turn, err)
		if a.gone || !goesOn {
			a.leave(nil)
			return nil, a.giveUp(ctx, w, err, oneline.Join(none, last))
		}
		if outcome == claims.Missing && turn.Kind == claims.Ask {
			none = doclock.ErrNotFound
		} else {
			none, last = errNoneFree, err
		}
		document := a.where()
		if err := a.anew(ctx); err != nil {
			return nil, a.failed(ctx, err, oneline.Join(none, last))
		}
		all.Settle(w, outcome, document)
	}
}

// refusal says what an answer that granted nothing tells of the document, and
// whether the claim goes on. A filter without a pin is not sent twice: if the
// outcome of that is unknown, the claim goes on with candidates.
func (a *acquisition) refusal(turn claims.Turn, err error) (outcome claims.Outcome, goesOn bool) {
	switch {
	case errors.Is(err, doclock.ErrConflict), errors.Is(err, doclock.ErrForeignLock):
		return claims.Refused, true
	case errors.Is(err, doclock.ErrNotFound) && !engine.AsFailure(err).Again:
		return claims.Missing, true
	default:
		return claims.Failed, turn.Kind == claims.Ask && a.filter.Pin == nil && a.unsure.n > 0
	}
}

// giveUp ends a claim with an error. If no server can be reached, the others
// need not try.
func (a *acquisition) giveUp(ctx context.Context, w *claims.Claimant, err, last error) error {
	if engine.AsFailure(err).NotSent {
		a.locker.claims.Fail(w, err)
	}
	return a.failed(ctx, err, last)
}

// anew goes on under another id, once the entry that an attempt of unknown
// outcome may have made was looked for.
func (a *acquisition) anew(ctx context.Context) error {
	cleaned := make(chan error, 1)
	a.discard(a.filter.Pin, a.request.ID, a.unsure, false, func(err error) { cleaned <- err })
	a.renamed()
	select {
	case <-cleaned: // or it goes on in the background
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-a.locker.ops.Closing():
		return doclock.ErrClosed
	}
}

// lookUp looks up candidates.
func (a *acquisition) lookUp(ctx context.Context, wanted engine.Filter, limit int) ([]engine.Pin, error) {
	type answer struct {
		found []engine.Pin
		err   error
	}
	a.aim(wanted)
	got, gaveUp, err := run(ctx, a, a.locker.ops.Closing(), func() (got answer) {
		if a.locker.closing() {
			return answer{err: doclock.ErrClosed}
		}
		unsure, err := attempt.Settle(ctx, a.timeout, func(ctx context.Context) (err error) {
			got.found, err = a.locker.engine.Candidates(ctx, wanted, a.request.Tag, limit)
			return err
		})
		got.err = a.unanswered("look-up", unsure, err)
		return got
	}, func(_ answer, done func()) { done() })
	switch {
	case err != nil:
		return nil, err
	case gaveUp != nil:
		return nil, gaveUp
	default:
		return got.found, got.err
	}
}

// succession tells the claims of the releases too.
type succession struct {
	*waitqueue.Queues
	claims *claims.Claims
}

// Released implements [lease.Succession].
func (s succession) Released(g engine.Grant) {
	s.Queues.Released(g)
	s.claims.Released()
}
