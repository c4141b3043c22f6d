package lease

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file has the renewals of one lease, and those of many in one command.

// Renew implements doclock.Lease.
func (l *Lease) Renew(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	if err := l.lock(ctx, l.renewing); err != nil {
		return err
	}
	err := l.run(ctx, l.sending(nil), func(ctx context.Context) error {
		defer l.renewing.unlock()
		return l.renew(ctx, func(error) {})
	})
	l.emitUnknown(ctx, err)
	return engine.Raise(err)
}

// renew renews with one command, repeated while the lease is valid. It reports each
// attempt.
func (l *Lease) renew(ctx context.Context, attempted func(error)) error {
	if err := l.err(); err != nil {
		return err
	}
	left := l.Remaining()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	bounds := l.bounds()
	bounds.Pause = left / 8 // no lease is lost by waiting
	var got engine.Answer
	_, err := attempt.Settle(ctx, bounds, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, l.Remaining())
		defer cancel()
		got, err = l.commands.Renew(ctx, l.grant)
		l.emitRenewal(got.Outcome, err)
		attempted(err)
		return err
	})
	if err != nil {
		if over := l.err(); over != nil {
			return oneline.Join(over, err)
		}
		return l.failed("renew", err)
	}
	if got.Outcome == engine.Lost {
		return l.lose(got)
	}
	l.extend(validity{from: got.Sent, ttl: l.grant.TTL})
	return l.err()
}

const (
	// batchSize is the most leases that one command renews. Each of them waits
	// for all the others, and so does a release of one of them. A larger batch
	// would save little: a statement costs the server more than its share of the
	// command.
	batchSize = 100

	// perStatement is the part of an attempt's time that each lease of a batch
	// takes: batches of short leases are smaller.
	perStatement = 2 * time.Millisecond
)

// inBatch is the most leases that a batch has with this one.
func (l *Lease) inBatch() int { return max(1, min(batchSize, int(l.bounds().Timeout/perStatement))) }

// long is when a command for these leases has taken long. The leases of a whole batch,
// renewed one by one, four at a time, must all be sent in a small part of the time
// that they have left.
func long(leases []*Lease) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, l := range leases {
		shortest = min(shortest, l.grant.TTL/200)
	}
	return shortest
}

// failure says what a renewal's failure means for the next try. The zero failure is
// none, or one that means nothing.
type failure struct {
	alone   bool // those that were not renewed share no command any more: one of them may be the reason
	trouble bool // the server's (engine.Failure), and a rest helps it
}

// renew renews leases with one command, except those that are being renewed or
// released already.
func renew(leases []*Lease) failure {
	var ours []*Lease
	for _, l := range leases {
		if l.renewing.tryLock() {
			defer l.renewing.unlock()
			if l.err() == nil {
				ours = append(ours, l)
			}
		}
	}
	switch len(ours) {
	case 0:
		return failure{}
	case 1:
		return renewOne(ours[0])
	default:
		slices.SortFunc(ours, func(a, b *Lease) int { return a.grant.Pin.Compare(b.grant.Pin) })
		return renewAll(ours)
	}
}

// renewOne renews a lease by itself. A loss ends the lease; any other error is tried
// again, after a rest if the server has trouble. It has got three messages by then:
// after an overload error the driver sends two more by itself.
func renewOne(l *Lease) (f failure) {
	ctx, cancel := context.WithTimeout(counted(context.Background(), []*Lease{l}), l.bounds().Timeout)
	defer cancel()
	attempts := 0
	_ = l.renew(ctx, func(err error) {
		attempts++
		f.trouble = trouble(err)
		if f.trouble && (attempts == 3 || engine.AsFailure(err).Trouble == engine.Overloaded) {
			cancel()
		}
	})
	return f
}

// trouble says that an error is the server's trouble.
func trouble(err error) bool { return err != nil && engine.AsFailure(err).Trouble != engine.NoTrouble }

// renewAll renews leases by rule 20. If the command matched all of their entries,
// they are valid from its send on. If not, a read shows for how long each of them
// stands.
func renewAll(leases []*Lease) failure {
	with := leases[0].locker
	grants := make([]engine.Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	ctx, cancel := timeoutFor(leases)
	got, failed := with.commands.RenewAll(ctx, grants)
	cancel()
	if got.Outcome == engine.Renewed {
		for _, l := range leases {
			l.extend(validity{from: got.Sent, ttl: l.grant.TTL})
			l.emitRenewal(engine.Renewed, nil)
		}
		return failure{}
	}
	emitFailedRenewals(leases, failed)
	if trouble(failed) && engine.AsFailure(failed).Nothing { // a read would tell what is known
		return failure{trouble: true}
	}
	ctx, cancel = timeoutFor(leases)
	defer cancel()
	standing, sent, err := with.commands.Standing(ctx, grants)
	if failed == nil {
		emitFailedRenewals(leases, err)
	}
	if err != nil {
		return failure{trouble: trouble(failed) || trouble(err)} // nobody answers: no lease is the reason
	}
	for _, l := range leases {
		stands := standing[l.grant.ID]
		switch {
		case stands.Lost == nil:
			l.extend(lasting(stands.Left, sent, l.grant.TTL))
			if failed == nil {
				l.emitRenewal(engine.Renewed, nil)
			}
		case failed == nil:
			_ = l.lose(*stands.Lost)
		}
	}
	return failure{alone: failed != nil && !brokenOff(failed) && !trouble(failed), trouble: trouble(failed)}
}

// brokenOff says that a connection broke, and that nobody waited for an answer
// in vain: no document is the reason. To renew a hundred leases one by one would
// then take a hundred commands, and on new connections more time than is left.
func brokenOff(err error) bool { return mongo.IsNetworkError(err) && !mongo.IsTimeout(err) }

// rest is how long leases rest together that the server's trouble has kept from being
// renewed: about half of the time that they have left. So the rests shrink with that
// time, and a few tries remain whenever the trouble ends. The leases of one command have
// one rest, or else each would need a command of its own.
func rest(leases []*Lease) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, l := range leases {
		shortest = min(shortest, max(l.pause(), l.left()/2))
	}
	return shortest/2 + rand.N(shortest)
}

// timeoutFor bounds a command for several leases: by the attempt timeout, and
// so that each has time left for a command of its own.
func timeoutFor(leases []*Lease) (context.Context, context.CancelFunc) {
	shortest := leases[0].left() / 2
	for _, l := range leases {
		shortest = min(shortest, l.bounds().Timeout, l.left()/2)
	}
	return context.WithTimeout(counted(context.Background(), leases), shortest)
}
