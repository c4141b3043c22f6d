package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

func (l *Lease) Convert(ctx context.Context, tag string) (doclock.Lease, error) {
	held, err := l.convert(ctx, tag)
	return Give(held, engine.Raise(err))
}

// convert is Convert. If its caller gives up, a lease that was granted is released.
func (l *Lease) convert(ctx context.Context, tag string) (*Lease, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	rules := l.engine.Rules()
	if _, known := rules[tag]; !known {
		return nil, fmt.Errorf("%w: Convert: unknown tag %q (tags: %s)", doclock.ErrInvalidArgument, tag, strings.Join(rules.Tags(), ", "))
	}
	if err := l.lockAll(ctx); err != nil {
		return nil, err
	}
	if err := l.suspend(); err != nil {
		l.unlockAll()
		return nil, err
	}
	to, v := l.conversion(tag), new(verdict)
	got, err := runFor(ctx, l, l.sending(nil), func(ctx context.Context) converted {
		defer func() {
			l.renewing.Unlock()
			l.allowTransactions()
		}()
		return l.sendConversion(ctx, v, to)
	}, func(got converted) {
		defer l.writing.Unlock()
		if got.lease != nil {
			l.discard(ctx)
			if err := got.lease.Unlock(context.Background()); err != nil && !errors.Is(err, doclock.ErrLost) {
				l.ended(Ending{How: Abandoned, Unanswered: oneAttempt(to)})
			}
		}
	})
	if revoked(err) {
		l.resume()
	}
	l.emitUnknown(ctx, v, cmp.Or(err, got.err))
	if err != nil {
		return nil, err
	}
	l.writing.Unlock() // a release learns whether the caller has the new lease
	if got.lease != nil {
		l.emitEnds(ctx, doclock.HowConverted, nil)
		got.lease.succeed(ctx, l)
	}
	return got.lease, got.err
}

// converted is the result of a conversion.
type converted struct {
	lease *Lease
	err   error
}

// suspend begins a conversion: the lease is not valid until its end.
func (l *Lease) suspend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOpen() {
		return l.Released()
	}
	if l.undecided != nil {
		return l.undecided
	}
	if l.limit.ttl > 0 && l.limit.left(l.engine.Clocks()) <= 0 { // nothing may go on
		return l.check()
	}
	l.become(suspended)
	return nil
}

// resume ends the suspension, unless the caller who has revoked the conversion has. The lease
// goes on with the validity that it had.
func (l *Lease) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == suspended {
		l.become(held)
	}
}

// conversion is the request of a Convert. The new entry has the TTL that the
// acquire has chosen, or else its own tag's.
func (l *Lease) conversion(tag string) engine.Request {
	r := engine.Request{Tag: tag, ID: uuid.New()}
	if l.grant.Chosen {
		r.Terms.TTL = l.grant.TTL
	}
	return r
}

// sendConversion sends the conversion and judges its answer. It takes the number of
// the next write.
func (l *Lease) sendConversion(ctx context.Context, v *verdict, to engine.Request) converted {
	if err := l.declaredLoss(); err != nil {
		l.resume()
		return converted{err: err}
	}
	l.writes++
	k := l.writes
	got, unsure, err := settle(ctx, l, func(ctx context.Context) (engine.Answer, error) { return l.commands.Convert(ctx, l.grant, k, to) })
	switch {
	case err != nil && unsure == nil:
		l.resume()
		return converted{err: l.failed("convert", err)}
	case err != nil:
		err = l.unknown("convert", unsure)
		l.withdraw(ctx, v, to, err)
		return converted{err: err}
	case got.Outcome == engine.Granted:
		return converted{lease: l.succeedBy(got, to)}
	case got.Outcome == engine.Conflict:
		if settled, _ := l.leases.Settle(ctx, l.engine.Unsettled(got.Image, to)); len(settled) > 0 {
			to.Settled = append(to.Settled, settled...)
			return l.sendConversion(ctx, v, to)
		}
		l.resume()
		return converted{err: l.conflict(got.Image, to.Tag)}
	default: // neither entry is there, and no attempt can make one
		err := l.lose(got)
		l.resume()
		return converted{err: err}
	}
}

// conflict names the held entries beside the lease's own that keep the tag out. If the own
// entry must keep others out for longer, it is named too. A refusal that a repeat has
// found may name none: they have left since.
func (l *Lease) conflict(img *engine.Image, tag string) error {
	entries, free := l.engine.InTheWay(img, tag, &engine.Entry{ID: l.grant.ID}) // as if it had come before all that wait
	if own, _ := img.Lock.Find(l.grant.Tag, l.grant.ID); own.Until.After(img.Now) {
		entries, free = append(entries, own), max(free, own.Until.Sub(img.Now))
	}
	return l.leases.Conflict(img, tag, entries, free, &engine.Image{})
}

// succeedBy ends the lease, whose entry has given way to the request's, and makes
// the new one's, with the same HoldAtMost. The waiters are woken as after a release.
func (l *Lease) succeedBy(got engine.Answer, to engine.Request) *Lease {
	l.replace(nil)
	g := l.engine.Grant(got.Image, to)
	next := l.leases.begin(g, validity{from: got.Sent, ttl: g.TTL}, l.limit, nil)
	l.ended(Ending{How: Released, Unanswered: l.unanswered})
	return next
}

// discard says of a lease that has given way that no caller has the new one. Others
// have been let in beside it, or after its release.
func (l *Lease) discard(ctx context.Context) {
	err := l.lose(engine.Answer{})
	l.emitEnds(ctx, "", err)
	l.doubtBy(err)
}

// withdraw ends a lease whose conversion has no answer: nobody knows which entry
// is there. It releases the old entry first: without that one no late attempt makes the
// new one. If its release is refused or not sent, the holder may release it.
func (l *Lease) withdraw(ctx context.Context, v *verdict, to engine.Request, err error) {
	released := l.sendRelease(attempt.Detached(ctx), &handoff{lease: l}, nil)
	l.emitUnknown(ctx, v, err) // before the end, and once
	l.emitEnds(ctx, doclock.HowConverted, err)
	unanswered := oneAttempt(to)
	if repeatable(released) {
		l.resume()
		l.doubtBy(err)
	} else {
		l.replace(err)
		unanswered = append(unanswered, l.unanswered...)
	}
	l.ended(Ending{How: Released, Unanswered: unanswered})
}

// oneAttempt is a conversion whose entry may stand, or may be made yet: one at most,
// whatever the number of attempts, since the lease's own entry is released.
func oneAttempt(to engine.Request) []Unanswered {
	return []Unanswered{{Request: to, Attempts: 1, Last: time.Now()}}
}

// replace ends the lease after a conversion that was not refused. A release
// returns released, and sends nothing.
func (l *Lease) replace(released error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(l.Released())
	l.become(replaced)
	l.doubt = released
}

// doubtBy notes that the lease may be replaced: while nobody can release it, nobody knows
// whether others were let in beside the new entry.
func (l *Lease) doubtBy(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubt = err
}
