package lease

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file makes renewal commands of the holds that are due, and sends one.

const (
	// batchSize is the most holds that one command renews. Each of them waits
	// for all the others, and so does a release of one of them. A larger batch
	// would save little: a statement costs the server more than its share of the
	// command.
	batchSize = 100

	// perStatement is the part of an attempt's time that each hold of a batch
	// takes: batches of short leases are smaller.
	perStatement = 2 * time.Millisecond
)

// due collects the holds of one round of renewals.
type due struct {
	together, alone []dueHold
	soonest         time.Duration // the shortest rest
}

type dueHold struct {
	*Hold
	rest  time.Duration // until it must be renewed
	stuck bool          // a renewal of it alone has failed
}

// renewal is one command.
type renewal struct {
	holds []*Hold
	due   time.Duration // of the most urgent of them, on the monotonic clock
	stuck bool
}

// add adds a hold to those that are renewed together, or alone.
func (d *due) add(hold dueHold, alone bool) {
	if len(d.together)+len(d.alone) == 0 {
		d.soonest = hold.rest
	}
	d.soonest = min(d.soonest, hold.rest)
	if alone {
		d.alone = append(d.alone, hold)
	} else {
		d.together = append(d.together, hold)
	}
}

// renewals are the commands that renew the holds.
func (d *due) renewals(now time.Duration) (all []renewal) {
	slices.SortFunc(d.together, func(a, b dueHold) int { return cmp.Compare(a.rest, b.rest) })
	for rest := d.together; len(rest) > 0; {
		size := batchSize
		var batch []*Hold
		first := now + rest[0].rest
		for len(batch) < min(size, len(rest)) {
			s := rest[len(batch)].Hold
			size = min(size, max(1, int(s.engine.Attempt(s.grant.TTL).Timeout/perStatement)))
			batch = append(batch, s)
		}
		rest = rest[len(batch):]
		slices.SortFunc(batch, func(a, b *Hold) int { return a.grant.Pin.Compare(b.grant.Pin) })
		all = append(all, renewal{holds: batch, due: first})
	}
	for _, s := range d.alone {
		all = append(all, renewal{holds: []*Hold{s.Hold}, due: now + s.rest, stuck: s.stuck})
	}
	return all
}

// compare is the order of sending: the most urgent first, but stuck ones after
// all the others, because they become more urgent the longer they fail.
func (r renewal) compare(other renewal) int {
	if r.stuck != other.stuck {
		if r.stuck {
			return 1
		}
		return -1
	}
	return cmp.Compare(r.due, other.due)
}

// long is when a renewal is out for long. The holds of a whole batch, renewed
// one by one, four at a time, must all be sent in a small part of the time
// that they have left.
func (r renewal) long() time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, s := range r.holds {
		shortest = min(shortest, s.grant.TTL/200)
	}
	return shortest
}

// failure says what a renewal's failure means for the next try. The zero failure is
// none, or one that means nothing.
type failure struct {
	alone   bool // those that were not renewed share no command any more: one of them may be the reason
	trouble bool // the server's (engine.Failure), and a rest helps it
}

// renew renews holds with one command, except those that are being renewed or
// released already.
func renew(holds []*Hold) failure {
	var ours []*Hold
	for _, s := range holds {
		if s.renewing.tryLock() {
			defer s.renewing.unlock()
			if s.err() == nil {
				ours = append(ours, s)
			}
		}
	}
	switch len(ours) {
	case 0:
		return failure{}
	case 1:
		return renewOne(ours[0])
	default:
		return renewAll(ours)
	}
}

// renewOne renews a hold by itself. A loss ends the hold; any other error is tried
// again, after a rest if the server has trouble. It has got three messages by then:
// after an overload error the driver sends two more by itself.
func renewOne(s *Hold) (f failure) {
	ctx, cancel := context.WithTimeout(counted(context.Background(), []*Hold{s}), s.engine.Attempt(s.grant.TTL).Timeout)
	defer cancel()
	attempts := 0
	_ = s.renewWith(ctx, func(ctx context.Context, g engine.Grant) (engine.Answer, error) {
		got, err := s.sendRenewal(ctx, g)
		attempts++
		f.trouble = trouble(err)
		if f.trouble && (attempts == 3 || engine.AsFailure(err).Trouble == engine.Overloaded) {
			cancel()
		}
		return got, err
	})
	return f
}

// trouble says that an error is the server's trouble.
func trouble(err error) bool { return err != nil && engine.AsFailure(err).Trouble != engine.NoTrouble }

// renewAll renews holds by rule 20. If the command matched all of their entries,
// they are valid from its send on. If not, a read shows for how long each of them
// stands.
func renewAll(holds []*Hold) failure {
	with := holds[0].locker
	grants := make([]engine.Grant, len(holds))
	for i, s := range holds {
		grants[i] = s.renewal()
	}
	ctx, cancel := timeoutFor(holds)
	got, failed := with.commands.RenewAll(ctx, grants)
	cancel()
	if got.Outcome == engine.Renewed {
		for i, s := range holds {
			s.renewed(grants[i], got.Sent)
			s.emitRenewal(engine.Renewed, nil)
		}
		return failure{}
	}
	emitFailedRenewals(holds, failed)
	if trouble(failed) && engine.AsFailure(failed).Nothing { // a read would tell what is known
		return failure{trouble: true}
	}
	ctx, cancel = timeoutFor(holds)
	defer cancel()
	standing, sent, err := with.commands.Standing(ctx, grants)
	if failed == nil {
		emitFailedRenewals(holds, err)
	}
	if err != nil {
		return failure{trouble: trouble(failed) || trouble(err)} // nobody answers: no hold is the reason
	}
	for _, s := range holds {
		stands := standing[s.grant.ID]
		switch {
		case stands.Lost == nil:
			s.extend(lasting(stands.Left, sent, s.grant.TTL))
			if failed == nil {
				s.emitRenewal(engine.Renewed, nil)
			}
		case failed == nil:
			_ = s.lose(*stands.Lost)
		}
	}
	return failure{alone: failed != nil && !brokenOff(failed) && !trouble(failed), trouble: trouble(failed)}
}

// brokenOff says that a connection broke, and that nobody waited for an answer
// in vain: no document is the reason. To renew a hundred holds one by one would
// then take a hundred commands, and on new connections more time than is left.
func brokenOff(err error) bool { return mongo.IsNetworkError(err) && !mongo.IsTimeout(err) }

// rest is how long holds rest together that the server's trouble has kept from being
// renewed: about half of the time that they have left. So the rests shrink with that
// time, and a few tries remain whenever the trouble ends. The holds of one command have
// one rest, or else each would need a command of its own.
func rest(holds []*Hold) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, s := range holds {
		shortest = min(shortest, max(s.pause(), s.left()/2))
	}
	return shortest/2 + rand.N(shortest)
}

// timeoutFor bounds a command for several holds: by the attempt timeout, and
// so that each has time left for a command of its own.
func timeoutFor(holds []*Hold) (context.Context, context.CancelFunc) {
	shortest := holds[0].left() / 2
	for _, s := range holds {
		shortest = min(shortest, s.engine.Attempt(s.grant.TTL).Timeout, s.left()/2)
	}
	return context.WithTimeout(counted(context.Background(), holds), shortest)
}
