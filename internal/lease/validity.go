package lease

import (
	"errors"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// validity is the time for which a holder may rely on the lock without asking
// the server. It starts before the command that granted or renewed was sent, so
// it ends before the server lets others in, however long the command took. Two
// clocks of this machine measure it, and it ends when either says so: the
// monotonic clock stands still while the machine is suspended, and the wall
// clock can be set.
type validity struct {
	from engine.Reading
	ttl  time.Duration
}

// resolution is that of the server's clock: it cuts 10.9 ms to 10. So an entry that was
// written then ends up to a millisecond early.
const resolution = time.Millisecond

// left is the time that remains; it is not positive when the validity is over.
func (v validity) left(now engine.Reading) time.Duration {
	passed := max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))
	return v.ttl - resolution - passed
}

// lasting is the validity that ends a span after now, of a lease with this TTL.
func lasting(span time.Duration, now engine.Reading, ttl time.Duration) validity {
	return validity{from: now.Less(ttl - span), ttl: ttl}
}

// later is the validity that lasts longer: answers may come out of order.
func (v validity) later(other validity) validity {
	if other.from.Mono > v.from.Mono {
		return other
	}
	return v
}

// leftAt is the time that remains of the validity, and of a HoldAtMost. The lease is
// locked.
func (l *Lease) leftAt(now engine.Reading) time.Duration {
	left := l.validity.left(now)
	if l.limit.ttl > 0 {
		left = min(left, l.limit.left(now))
	}
	return left
}

// atLimit says that no renewal is of use any more: a HoldAtMost ends the lease first. The
// lease is locked.
func (l *Lease) atLimit(now engine.Reading) bool {
	return l.limit.ttl > 0 && l.validity.left(now) >= l.limit.left(now)
}

// left is for how long the server lets nobody in, whatever has ended the lease here, unless
// a break or a take-over ends the entry.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.validity.left(l.engine.Clocks())
}

// kept is how long the server may still keep the entry, and at least an
// attempt.
func (l *Lease) kept() time.Duration { return max(l.left()+l.engine.Tolerance, l.bounds().Timeout) }

// bounds are those of the lease's commands.
func (l *Lease) bounds() engine.Attempts { return l.engine.Attempt(l.grant.TTL) }

// since is when the validity began.
func (l *Lease) since() engine.Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.validity.from
}

// extend takes in that the server has renewed the entry.
func (l *Lease) extend(v validity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.validity = l.validity.later(v)
}

// err is why the validity has ended, or nil.
func (l *Lease) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// isOver says that the validity has ended, without a look at the clock.
func (l *Lease) isOver() bool { return l.over() != nil }

// over is why the validity has ended, without a look at the clock.
func (l *Lease) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// check ends the validity when its time is up. The lease is locked.
func (l *Lease) check() error {
	if l.cause != nil {
		return l.cause
	}
	if now := l.engine.Clocks(); l.leftAt(now) <= 0 {
		l.finish(l.runOut(now))
		return l.cause
	}
	l.watch.Reset(l.nextCheck())
	return nil
}

// nextCheck is when to check again: a few times more often than renewals make
// necessary, because no timer follows the wall clock. The lease is locked.
func (l *Lease) nextCheck() time.Duration {
	return max(0, min(l.leftAt(l.engine.Clocks()), l.validity.ttl/4))
}

// giveUp ends the validity before a command is sent that ends the lock, or leaves it
// to others.
func (l *Lease) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish(l.Released())
}

// finish ends the validity for good, and what follows the lease. The lease is locked.
func (l *Lease) finish(cause error) {
	l.watch.Stop()
	if l.cause != nil {
		return
	}
	l.cause = cause
	if errors.Is(cause, doclock.ErrLost) { // else its last command is to be sent
		l.leases.remove(l)
		l.emitLost()
	}
	if l.done != nil {
		close(l.done)
	}
	for _, f := range l.followers {
		f.ended(cause)
	}
	l.followers = nil
}

// runOut is the loss of a lease whose time has passed. The lease is locked.
func (l *Lease) runOut(now engine.Reading) error {
	loss := l.leases.loss(&l.grant, doclock.LossNotRenewed, now.Wall.Add(l.leftAt(now)))
	switch {
	case l.atLimit(now):
		loss.Reason = doclock.LossHeldAtMost
	case len(l.renewing) > 0 || slices.ContainsFunc(l.followers, func(f follower) bool { _, only := f.(*ender); return !only }):
		loss.Reason = doclock.LossExpired
	}
	return loss
}

// lose ends the lease by the server's verdict, which it remembers. The reason is the
// first one: once the lease's time was up, others could come.
func (l *Lease) lose(got engine.Answer) error {
	l.mu.Lock()
	known, before := l.loss, l.cause
	l.mu.Unlock()
	if known != nil {
		return known
	}
	loss := l.leases.Missing(&l.grant, got) // under no mutex: the holders may be leases of this process, as this one is
	if ranOut := (*doclock.LostError)(nil); errors.As(before, &ranOut) {
		loss.Reason, loss.Since = ranOut.Reason, ranOut.Since
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loss == nil {
		l.loss = loss
		l.finish(loss)
	}
	return l.loss
}

// declaredLoss is the loss that the server has declared, or nil.
func (l *Lease) declaredLoss() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loss
}
