package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// Detach implements doclock.Lease. A caller who gives up has the token: the
// detach goes on, and a resume shows whether it was executed.
func (l *Lease) Detach(ctx context.Context) (token string, err error) {
	defer func() { err = engine.Raise(err) }()
	if err := l.ready(ctx); err != nil {
		return "", err
	}
	if l.limit.ttl > 0 { // it never changes
		return "", fmt.Errorf("%w: Detach: %v: the lease has a HoldAtMost, and the entry of a token outlives its leases; "+
			"acquire without it what is to be detached", doclock.ErrInvalidArgument, l.name())
	}
	v, err := l.claimAll(ctx)
	if err != nil {
		return "", err
	}
	k := engine.Token{Tag: l.grant.Tag, Key: l.grant.Key} // of a lease that was resumed
	if k.Key == uuid.Nil {
		k.Key = uuid.New()
	}
	sent := func() {
		l.mark(k.Key)
		l.giveUp()
	}
	err = l.run(ctx, l.sending(sent), func(ctx context.Context) error {
		defer l.unlockAll()
		err := l.detach(ctx, k)
		l.concludeDetach(ctx, v, err)
		return err
	})
	err = l.tell(ctx, v, err, l.concludeDetach)
	if err != nil && !errors.Is(err, doclock.ErrLost) {
		l.reopen(v) // a release waits for the detach's end
	}
	if err != nil && (!errors.Is(err, doclock.ErrOutcomeUnknown) || repeatable(err)) {
		return "", err
	}
	return k.Text(), err
}

// detach sends the detach and judges its answer. A repeat that finds nothing reads
// the document: an earlier attempt may have left the entry to a user of the token,
// who has resumed it since, or has even released it. Nobody else knows a new key. Others
// know the key of a lease that was itself resumed. One of them may have taken the entry
// before that attempt, but such a resume writes `until`.
func (l *Lease) detach(ctx context.Context, k engine.Token) error {
	if err := l.declaredLoss(); err != nil {
		return err
	}
	var got engine.Answer
	unsure, err := l.settle(ctx, func(ctx context.Context) (err error) {
		got, err = l.commands.Detach(ctx, l.grant, k.Key)
		return err
	})
	switch {
	case err != nil && unsure == nil:
		return l.Judge(l.failed("detach", err))
	case err != nil:
		return l.unknown("detach", unsure)
	case got.Outcome == engine.Detached:
		return nil
	case unsure == nil:
		return l.lose(got)
	}
	img, err := l.read(ctx)
	switch entry, there := keyed(img, k.Tag, k.Key); {
	case err != nil:
		return l.unknown("detach", oneline.Join(unsure, err))
	case there && (l.grant.Key == uuid.Nil || entry.Until.IsZero()):
		return nil
	default:
		return l.unknown("detach", unsure)
	}
}

// keyed is the entry of a token in the image.
func keyed(img *engine.Image, tag string, key uuid.UUID) (engine.Entry, bool) {
	if img == nil {
		return engine.Entry{}, false
	}
	return img.Lock.Keyed(tag, key)
}

// mark notes the key that the entry has, or may have, after a detach.
func (l *Lease) mark(key uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key = key
}

// concludeDetach publishes the verdict on a detach, which is the release's too. If
// the detach was refused or not sent, the entry stands as before. If its outcome
// is unknown, a release may end the entry, whether or not it has the key.
func (l *Lease) concludeDetach(ctx context.Context, v *verdict, err error) {
	e := Ending{How: Detached}
	if errors.Is(err, doclock.ErrLost) {
		e.How = Released
	}
	if err == nil || e.How == Released {
		e.Unanswered = l.unanswered // whose clean-up spares entries with a key
	}
	defer l.ended(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.publish(ctx, v, doclock.HowDetached, err):
	case repeatable(err):
		l.key = uuid.Nil
		l.become(held)
		l.release = nil
	default:
		l.become(detached)
		if errors.Is(err, doclock.ErrOutcomeUnknown) {
			l.release = nil
		}
	}
}

// reopen lets a release be claimed again.
func (l *Lease) reopen(v *verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.release == v {
		l.release = nil
	}
}
