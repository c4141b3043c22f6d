package multilock

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// Resume makes a lease of the entry that [doclock.Lease.Detach] has left to the
// users of the token, in one command. Any process can resume it whose Locker has the
// same collection, field and rules for the tag, again and again until a lease of it is
// released, or the entry has expired and another client was granted. It doesn't wait: the
// lock was held all the time.
//
// The filter must demand an equal _id, and in a sharded collection equal fields of the
// shard key, at its top level. It may demand more: if the document is another one, that
// is an ErrNotFound, and the token stays good.
//
// Each resume takes the entry from the lease that had it, which learns it from its next
// command. So the leases of one token exclude all others, and not each other: write under
// the guard what must not happen twice. If that lease had not detached, a release leaves
// a remainder, which keeps others out until it is certainly over.
//
// The lease has the TTL of this Locker, or that of [doclock.TTL], and the entry keeps its
// owner, or gets that of [doclock.Owner]. If [doclock.Into] can't decode the document,
// the entry is detached again, in one more command. Other options are refused.
//
// The errors are those of an acquire, but for ErrConflict. [doclock.ErrLost]: the document
// is there, and the entry is gone. [doclock.ErrInvalidArgument]: the token was altered or
// cut off, or is of another tag or version. If ctx ends first, or no attempt is answered,
// the token stays good, and an attempt that is executed later takes the entry.
func (l *Locker) Resume(ctx context.Context, filter any, token string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	held, err := l.resume(ctx, filter, token, opts)
	return lease.Give(held, engine.Raise(notAcquired(err)))
}

func (l *Locker) resume(ctx context.Context, filter any, token string, opts []doclock.AcquireOption) (held *lease.Lease, err error) {
	f, k, err := l.named(filter, token)
	if err != nil {
		return nil, err
	}
	cfg, err := resumeConfig(opts, "a resume gives what was acquired, and doesn't wait: it takes Into, TTL and Owner only", func(cfg *engine.AcquireConfig) {
		cfg.Into, cfg.Terms.TTL, cfg.Terms.Owner = nil, 0, ""
	})
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	c := l.call(ctx, f, k.Tag, cfg)
	c.request.ID = uuid.New()
	l.ops.Enter()
	defer l.ops.Leave()
	defer func() { c.observed.emitEnd(ctx, held, err) }()
	type result struct {
		engine.Answer
		err error
	}
	got, gone := attempt.Run(ctx, l.ops, func() (got result) {
		got.Answer, got.err = c.resume(c.observed.count(ctx), k)
		return got
	}, func(result) {})
	switch {
	case gone != nil:
		return nil, oneline.Join(gone, l.engine.Unreachable())
	case got.err != nil:
		return nil, got.err
	case got.Outcome != engine.Granted:
		return nil, l.unresumed(f, k, got.Answer)
	}
	g := l.engine.Grant(got.Image, c.request)
	g.Secret = k.Secret
	resumed := l.leases.New(g, got.Sent)
	l.queues.Resumed(c.lane, got.Image, c.begun)
	// The entry is left to the users of the token again: a later release leaves no remainder for
	// a lease that nobody got. If the detach fails, the entry stays as it is, and the token good.
	if err := c.decode(got.Image, func() {
		again, cancel := context.WithTimeout(attempt.Detached(ctx), c.bounds.Timeout) // ctx may have ended meanwhile
		defer cancel()
		_, _ = resumed.Detach(again)
	}); err != nil {
		return nil, err
	}
	return resumed, nil
}

// resume sends the resume until it is answered. A repeat finds the entry by the same id.
func (c *call) resume(ctx context.Context, k engine.Token) (got engine.Answer, err error) {
	sent, done, err := c.locker.slots.take(ctx, c, c.locker.ops.Closing())
	if err != nil {
		return got, err
	}
	defer done()
	defer sent()
	r := c.request
	for {
		if c.locker.ops.Closed() {
			return got, c.locker.closed
		}
		err := c.settle(ctx, "resume", attempt.Settle, func(ctx context.Context) (err error) {
			got, err = c.locker.engine.Resume(ctx, c.filter, k, r)
			return err
		})
		if err != nil || got.Outcome != engine.Conflict {
			return got, err
		}
		if ctx.Err() != nil {
			return got, attempt.Ended(ctx)
		}
		// transactions of the lease that had the entry may be open (rule 28)
		own, _ := got.Image.Lock.Keyed(k.Tag, k.Key())
		settled, err := c.locker.leases.Settle(ctx, []engine.Mark{own.Mark})
		switch {
		case err == nil:
		case engine.AsFailure(err).Refused(), c.locker.queues.Now()-c.begun > c.bounds.RetryLimit:
			return got, explain("settle", err)
		case !attempt.Sleep(ctx, firstRest):
			return got, attempt.Ended(ctx)
		}
		r.Settled = append(r.Settled, settled...)
	}
}

// unresumed is the error of a resume or a touch that has found no entry.
func (l *Locker) unresumed(f engine.Filter, k engine.Token, got engine.Answer) error {
	if got.Outcome == engine.NotFound {
		return &notFound{namespace: l.engine.Namespace(), filter: f}
	}
	return l.leases.Missing(&engine.Grant{Pin: f.Pin, Entry: engine.Entry{Tag: k.Tag}}, got)
}

// Touch extends the entry of a token to a TTL from now, in one command: a heartbeat.
// The TTL is that of this Locker, or that of [doclock.TTL], the only option. Touch makes
// no lease, and takes the entry from no lease.
//
// The filter and the token are those of a [Locker.Resume], and so are the errors
// [doclock.ErrInvalidArgument], [doclock.ErrLost] and [doclock.ErrNotFound]. A command
// without an answer is repeated until ctx ends, or the entry would have expired, for 30
// s at most. Then the error is ctx's or the driver's, and the entry may have been
// extended.
func (l *Locker) Touch(ctx context.Context, filter any, token string, opts ...doclock.AcquireOption) error {
	f, k, err := l.named(filter, token)
	if err != nil {
		return err
	}
	cfg, err := resumeConfig(opts, "a touch extends the entry of a token: it takes TTL only", func(cfg *engine.AcquireConfig) {
		cfg.Terms.TTL = 0
	})
	if err != nil {
		return err
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	ttl := l.engine.LeaseBy(k.Tag, cfg.Terms)
	bounded, cancel := context.WithTimeout(ctx, ttl+l.engine.Tolerance)
	defer cancel()
	err, gaveUp := attempt.Run(ctx, l.ops, func() error { return l.touch(bounded, f, k, ttl) }, func(error) {})
	if gaveUp != nil {
		return oneline.Join(gaveUp, l.engine.Unreachable())
	}
	return engine.Raise(err)
}

func (l *Locker) touch(ctx context.Context, f engine.Filter, k engine.Token, ttl time.Duration) error {
	var got engine.Answer
	_, err := attempt.Settle(ctx, l.engine.Attempt(ttl), func(ctx context.Context) (err error) {
		got, err = l.engine.Touch(ctx, f, k, ttl)
		return err
	})
	switch {
	case err != nil:
		return explain("touch", err)
	case got.Outcome != engine.Renewed:
		return l.unresumed(f, k, got)
	default:
		return nil
	}
}

// named reads a filter that pins a document, and the text of a token.
func (l *Locker) named(filter any, text string) (engine.Filter, engine.Token, error) {
	k, err := l.engine.ParseToken(text)
	if err != nil {
		return engine.Filter{}, k, fmt.Errorf("%w: token: %w", doclock.ErrInvalidArgument, err)
	}
	f, err := l.engine.ParseFilter(filter)
	switch {
	case err != nil:
		return f, k, fmt.Errorf("%w: filter: %w", doclock.ErrInvalidArgument, err)
	case f.Pin == nil:
		return f, k, fmt.Errorf("%w: the filter of a token must demand an equal _id at its top level, and in a sharded collection equal fields of the shard key", doclock.ErrInvalidArgument)
	default:
		return f, k, nil
	}
}

// resumeConfig reads the options of a resume or a touch. taken clears those that it
// takes; the reason refuses all others.
func resumeConfig(opts []doclock.AcquireOption, reason string, taken func(*engine.AcquireConfig)) (cfg engine.AcquireConfig, err error) {
	if cfg, err = acquireConfig(opts); err != nil {
		return cfg, err
	}
	other := cfg
	taken(&other)
	if !reflect.DeepEqual(other, engine.AcquireConfig{}) {
		return cfg, fmt.Errorf("%w: %s", doclock.ErrInvalidArgument, reason)
	}
	return cfg, nil
}
