package multilock

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// Resume makes a lease of the entry that [doclock.Lease.Detach] has left to the
// users of the token, in one command. Any process can resume it whose Locker has the
// same collection, field, shard key and rules for the tag. Resume doesn't wait: the
// lock was held all the time. The token can be resumed again until a lease of it is
// released, or until the entry has expired and another client was let in.
//
// Each resume takes the entry from the handle that had it. That lease is lost, and
// learns it from its next command. Until then it may still count as valid. So the
// leases of one token exclude all others, and not each other: write under the guard
// what must not happen twice ([doclock.Lease.Update],
// [doclock.Lease.UpdateAndRelease]). The guard matches for the last resume alone. If
// a resume took the entry from a lease that had not detached, a release leaves a
// remainder, which keeps others out until that lease is certainly over.
//
// The lease has the TTL of the one that detached, or that of [doclock.TTL], and the
// owner of this Locker, or that of [doclock.Owner]. [doclock.Into] decodes the
// document as of the resume. If that fails, Resume returns the error, and detaches
// the entry for the next resume, in one more command. Other options are refused.
//
// Every error is a [doclock.ErrNotAcquired], beside its cause: the caller holds
// nothing. The causes are
//   - [doclock.ErrInvalidArgument]: the token was altered or cut off, or it is of
//     another collection, field, shard key, tag or version; nothing was sent;
//   - [doclock.ErrLost]: the entry is gone; others may have been let in since;
//   - those of [Locker.TryAcquire], without ErrConflict and ErrNotFound.
//
// If ctx ends first, or no attempt is answered, the token stays good. Nothing is
// cleaned up, because the entry is not the resume's. An attempt that is executed
// later takes the entry from the handle that has it by then.
func (l *Locker) Resume(ctx context.Context, token string, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	held, err := l.resume(ctx, token, opts)
	return (*doclock.Lease)(held), notAcquired(err)
}

func (l *Locker) resume(ctx context.Context, token string, opts []doclock.AcquireOption) (held *lease.Handle, err error) {
	k, err := l.token(token)
	if err != nil {
		return nil, err
	}
	cfg, err := resumeConfig(opts)
	if err != nil {
		return nil, err
	}
	cfg.Terms.TTL = cmp.Or(cfg.Terms.TTL, k.TTL)
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	a := &asked{
		locker:  l,
		filter:  engine.Filter{Pin: k.Pin},
		lane:    waitqueue.Key(k.Pin),
		request: engine.Request{Tag: k.Tag, ID: uuid.New(), Document: cfg.Into != nil, Terms: cfg.Terms},
		begun:   l.queues.Now(),
		bounds:  l.engine.Attempt(cfg.Terms.TTL),
	}
	a.observed = l.observed(ctx, a)
	defer func() { a.observed.emitEnd(ctx, held, err) }()
	got, gone, err := run(ctx, a, nil, l.ops.Closing(), func() (got reply) {
		if l.closing() {
			return reply{err: doclock.ErrClosed}
		}
		got.err = a.settle(a.observed.counted(ctx), "resume", attempt.Settle, func(ctx context.Context) (err error) {
			got.Answer, err = l.engine.Resume(ctx, k, a.request) // a repeat finds the entry by the same id
			return err
		})
		return got
	}, func(_ reply, done func()) { done() })
	switch {
	case gone:
		return nil, oneline.Join(err, l.engine.Unreachable())
	case err != nil:
		return nil, err
	case got.err != nil:
		return nil, got.err
	case got.Outcome == engine.Lost:
		return nil, doclock.ErrLost
	}
	resumed := l.leases.New(l.engine.Grant(got.Image, a.request), got.Sent, false)
	l.queues.Resumed(a.lane, got.Image, a.begun)
	// If the document can't be decoded, the entry is left to the users of the token
	// again: a later release leaves no remainder for a lease that nobody got. If the
	// detach fails, the entry stays as it is, and the token good.
	if err := l.decode(got.Image, targets(cfg), func() { _, _ = resumed.Detach(ctx) }); err != nil {
		return nil, err
	}
	return resumed, nil
}

// Touch extends the entry of a token to a TTL from now, in one command: a heartbeat.
// The TTL is that of the lease that detached. Touch makes no lease, and takes the
// entry from no lease.
//
// It returns [doclock.ErrLost] if the entry is gone: others may have been let in
// since. For a token that [Locker.Resume] refuses, it returns a
// [doclock.ErrInvalidArgument] and sends nothing. A command without an answer is
// repeated until ctx ends, or the entry would have expired, for 30 s at most. Then
// the error is ctx's or the driver's, and the entry may have been extended.
func (l *Locker) Touch(ctx context.Context, token string) error {
	k, err := l.token(token)
	if err != nil {
		return err
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, k.TTL+l.engine.Tolerance)
	defer cancel()
	err, gaveUp := attempt.Run(ctx, &l.ops, func() error { return l.touch(bounded, k) }, func(error) {})
	if gaveUp != nil {
		return oneline.Join(gaveUp, l.engine.Unreachable())
	}
	return err
}

func (l *Locker) touch(ctx context.Context, k engine.Token) error {
	var got engine.Answer
	_, err := attempt.Settle(ctx, l.engine.Attempt(k.TTL), func(ctx context.Context) (err error) {
		got, err = l.engine.Touch(ctx, k)
		return err
	})
	switch {
	case err != nil:
		return explain("touch", err)
	case got.Outcome == engine.Lost:
		return doclock.ErrLost
	default:
		return nil
	}
}

// token reads a token's text.
func (l *Locker) token(text string) (engine.Token, error) {
	k, err := l.engine.ParseToken(text)
	if err != nil {
		return k, fmt.Errorf("%w: token: %w", doclock.ErrInvalidArgument, err)
	}
	return k, nil
}

// resumeConfig reads the options of a resume.
func resumeConfig(opts []doclock.AcquireOption) (cfg engine.AcquireConfig, err error) {
	if cfg, err = acquireConfig(opts); err != nil {
		return cfg, err
	}
	other := cfg
	other.Into, other.Terms.TTL, other.Terms.Owner = nil, 0, ""
	if !reflect.DeepEqual(other, engine.AcquireConfig{}) {
		return cfg, fmt.Errorf("%w: a resume gives what was acquired, and doesn't wait: it takes Into, TTL and Owner only", doclock.ErrInvalidArgument)
	}
	return cfg, nil
}
