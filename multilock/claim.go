package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/claims"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
)

// claim is how an acquire waits that takes any document which matches the filter and
// is free.
type claim struct {
	*asked
	claimant *claims.Claimant
	once     bool  // it doesn't wait
	noneFree error // documents match, or may match
	none     error // the same, or that no document matches
	last     error // why the last document was refused
	unfit    unfit
}

// unfit counts the documents that a claim has met and that can't take the lock.
type unfit struct {
	err  error // the last one's refusal
	code int
	row  int // how many had this code, one after the other
}

// mostInRow is how many documents in a row may be refused for the same reason. Then
// it is the collection's: that of its validator, for example.
const mostInRow = 3

// claim takes any document that matches the filter and is free (rule 26). Each
// candidate is tried by the ordinary acquire, with the caller's filter and the
// candidate's _id, under an id of its own.
func (a *asked) claim(ctx context.Context, once bool) (*lease.Handle, error) {
	all := a.locker.claims
	w := all.Enter(a.request.Tag+"\x00"+a.filter.Key(), claims.Request{
		Once: once,
		Asks: a.filter.Pin != nil || len(a.locker.engine.ShardKey) == 0, // old routers refuse a filter without the shard key
	})
	defer all.Leave(w)
	c := &claim{asked: a, claimant: w, once: once, noneFree: a.notFound(true)}
	c.none = c.noneFree
	for {
		if a.observed != nil && !once && all.Asleep(w) {
			a.observed.emitWaiting(c.last)
		}
		step, err := all.Await(ctx, w)
		if err != nil {
			return nil, c.failed(ctx, err, c.soFar())
		}
		filter := a.filter
		switch step.Kind {
		case claims.None:
			return nil, notAcquired(cmp.Or(c.unfit.err, c.soFar()))
		case claims.Look:
			found, err := c.lookUp(ctx, step.Limit)
			if err != nil {
				return nil, c.giveUp(ctx, err)
			}
			all.Found(w, found)
			continue
		case claims.Try:
			filter = filter.At(step.Candidate)
		}
		s := newAttempts(a.of(filter), nil).once(ctx)
		if s.held != nil {
			s.cleanUp(nil)
			all.Settle(w, claims.Granted, s.where())
			return s.held, nil
		}
		outcome, err := c.refused(step, s)
		if err != nil {
			s.cleanUp(nil)
			if outcome == claims.Unfit { // the others pass over it, too
				all.Settle(w, claims.LastUnfit, "")
			}
			return nil, c.giveUp(ctx, err)
		}
		if err := c.awaitCleanUp(ctx, s); err != nil {
			return nil, c.failed(ctx, err, c.soFar())
		}
		all.Settle(w, outcome, "")
	}
}

// soFar is why the claim has no document so far.
func (c *claim) soFar() error { return oneline.Join(c.none, c.last) }

// giveUp ends the claim with an error. In an outage the others need not try.
func (c *claim) giveUp(ctx context.Context, err error) error {
	if c.outage(err) {
		c.locker.claims.Fail(c.claimant, err)
	}
	return c.failed(ctx, err, c.soFar())
}

// refused is what an answer that granted nothing says of the document. An error ends
// the claim.
func (c *claim) refused(step claims.Step, s attempts) (claims.Outcome, error) {
	outcome, goesOn := refusal(step, s)
	err := s.err
	if outcome == claims.Unfit && step.Kind == claims.Try { // an ask doesn't know which one it was
		err, goesOn = c.unfit.met(s)
		c.observed.emitSkipped(err)
	}
	switch {
	case s.gone, !goesOn:
		return outcome, err
	case outcome != claims.Missing:
		c.none, c.last = c.noneFree, err
	case step.Kind == claims.Ask:
		c.none = err
	default: // the candidate was taken, or has left, and its error says nothing of the others
		c.none = c.noneFree
	}
	return outcome, nil
}

// refusal is the outcome of such an answer, and whether a claim goes on after it. A
// filter without a pin is not sent twice: if the outcome of that is unknown, the claim
// goes on with candidates.
func refusal(step claims.Step, s attempts) (outcome claims.Outcome, goesOn bool) {
	switch {
	case errors.Is(s.err, doclock.ErrConflict), errors.Is(s.err, doclock.ErrForeignLock):
		return claims.Refused, true
	case errors.Is(s.err, doclock.ErrNotFound):
		return claims.Missing, true
	case engine.AsFailure(s.err).Unfit != 0 && (step.Kind == claims.Try || s.filter.Pin == nil):
		return claims.Unfit, true
	default:
		return claims.Failed, step.Kind == claims.Ask && s.filter.Pin == nil && s.unsure.n > 0
	}
}

// met passes over a document. The claim goes on, unless this is the last one.
func (u *unfit) met(s attempts) (explained error, goesOn bool) {
	u.err = fmt.Errorf("doclock: document %s can't take the lock: %w", bsonvalue.Readable(s.filter.Pin.ID()), s.err)
	code := engine.AsFailure(s.err).Unfit
	if code != u.code {
		u.code, u.row = code, 0
	}
	u.row++
	return u.err, u.row < mostInRow
}

// awaitCleanUp waits until the clean-up has looked for the entry that an attempt of
// unknown outcome may have made.
func (c *claim) awaitCleanUp(ctx context.Context, s attempts) error {
	cleaned := make(chan error, 1)
	s.cleanUp(func(err error) { cleaned <- err })
	select {
	case <-cleaned: // or it goes on in the background
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-c.locker.ops.Closing():
		return doclock.ErrClosed
	}
}

// lookUp looks up candidates.
func (c *claim) lookUp(ctx context.Context, limit int) (found []engine.Pin, err error) {
	type answer struct {
		found []engine.Pin
		err   error
	}
	c.observed.names(documentOf(c.filter.Pin))
	got, _, err := run(ctx, c.asked, nil, c.locker.ops.Closing(), func() (got answer) {
		if c.locker.closing() {
			return answer{err: doclock.ErrClosed}
		}
		got.err = c.settle(ctx, "look-up", attempt.Settle, func(ctx context.Context) (err error) {
			got.found, err = c.locker.engine.Candidates(ctx, c.filter, c.request.Tag, limit)
			return err
		})
		return got
	}, func(_ answer, done func()) { done() })
	return got.found, cmp.Or(err, got.err)
}
