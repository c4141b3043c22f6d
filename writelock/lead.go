package writelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
)

// campaignPause is the pause after an error that may pass. The commands that
// failed have paused already.
const campaignPause = 200 * time.Millisecond

// Lead campaigns for the document's lock until ctx ends, and calls fn while it holds
// it: this process is the leader then. It renews and releases the lease as [Locker.Do]
// does. If fn returns while it leads, Lead returns what Do returns, nil included: call Lead
// again to campaign again.
//
// fn's context ends with the lease (cause [doclock.ErrLost]). fn must return then. Lead
// drops its error and campaigns again, also if the release finds that the lease was lost
// before. So fn itself must undo, or report, what it did in a term that has ended so.
//
// Lead's error speaks of the last term: it is a [doclock.ErrNotAcquired] if there was
// none, and a [doclock.ErrLost] if that one was lost, and none came after it. If ctx ends
// while fn runs, Lead returns what Do returns, and else ctx's error beside that. Errors
// that may pass, such as that no server can be reached, don't end Lead. Those that another
// try would meet do: bad arguments, a closed Locker, a document that does not exist (see
// [doclock.Upsert]), a refusal of the server. [Locker.Close] ends fn's context at once,
// cause [doclock.ErrClosed]. [doclock.MaxWait] is refused: ctx bounds the campaign.
//
// No two leaders have leases that are valid at the same time, in whatever processes. But
// fn may run on for a moment after its process was stopped: do what must not happen twice
// by guarded writes ([doclock.Lease.Update]), or at a place that checks the fencing token.
// [doclock.Owner] is in the lock's entry, and shows who leads.
func (l *Locker) Lead(ctx context.Context, filter any, fn func(context.Context, doclock.Lease) error, opts ...doclock.AcquireOption) error {
	if fn == nil {
		return l.Do(ctx, filter, nil) // which says so
	}
	opts = append(opts[:len(opts):len(opts)], leads{})
	var ran bool
	var last error // of the last term, which was lost
	for {
		led, lost := false, false
		err := l.Do(ctx, filter, func(ctx context.Context, held doclock.Lease) error {
			led = true
			err := fn(ctx, held)
			lost = errors.Is(held.Err(), doclock.ErrLost)
			return err
		}, opts...)
		switch {
		case led && (ctx.Err() != nil || !lost && !errors.Is(err, doclock.ErrLost)):
			return err
		case led:
			ran, last = true, err
			continue
		case mayPass(err):
			select {
			case <-time.After(campaignPause):
				continue
			case <-ctx.Done():
				err = oneline.Join(err, attempt.Ended(ctx))
			}
		}
		if !ran {
			return err
		}
		return lease.Only(lease.Verdict(last), oneline.Join(last, err))
	}
}

// mayPass says of an acquire's error that a command has failed, and was not
// refused.
func mayPass(err error) bool {
	var failure *engine.Failure
	return errors.As(err, &failure) && !failure.Refused()
}

// leads comes after the caller's options.
type leads struct{}

// ApplyAcquire implements doclock.AcquireOption.
func (leads) ApplyAcquire(c *engine.AcquireConfig) error {
	c.Leads = true
	switch {
	case c.MaxWait != nil:
		return fmt.Errorf("%w: MaxWait has no meaning for Lead; ctx bounds the campaign", doclock.ErrInvalidArgument)
	case c.TakeOver != nil:
		return fmt.Errorf("%w: Lead campaigns again and again, and a TakeOver ends a lease once; give it to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument)
	default:
		return nil
	}
}
