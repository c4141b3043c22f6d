package lease

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	// batchSize is the most leases that one command renews. Each of them waits
	// for all the others, and so does who releases one of them meanwhile. More
	// would save little: a statement costs the server more than its share of
	// the command.
	batchSize = 100

	// perStatement is the part of an attempt's time that each lease of a batch
	// takes: batches of short leases are smaller.
	perStatement = 2 * time.Millisecond
)

// dueLeases collects leases for one round of renewals.
type dueLeases struct {
	together, alone []dueLease
	soonest         time.Duration // the shortest rest
}

type dueLease struct {
	*Handle
	rest  time.Duration
	stuck bool
}

// renewal is one command.
type renewal struct {
	leases []*Handle
	due    time.Duration // the most urgent of them, on the monotonic clock
	stuck  bool
}

// compare is the order of sending: the most urgent first, but after all the
// others those that are stuck, for these are the more urgent the longer they
// fail.
func (c renewal) compare(other renewal) int {
	if c.stuck != other.stuck {
		if c.stuck {
			return 1
		}
		return -1
	}
	return cmp.Compare(c.due, other.due)
}

// long is when a renewal is out for long. A whole batch, sent one after the
// other by themselves, with four at a time, must have a turn in a small part of
// the time that they have left.
func (c renewal) long() time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, l := range c.leases {
		shortest = min(shortest, l.engine.Lease(l.grant.Tag)/200)
	}
	return shortest
}

func (d *dueLeases) add(l *Handle, k keeping, rest time.Duration) {
	if len(d.together)+len(d.alone) == 0 {
		d.soonest = rest
	}
	d.soonest = min(d.soonest, rest)
	if k.alone {
		d.alone = append(d.alone, dueLease{l, rest, k.stuck})
	} else {
		d.together = append(d.together, dueLease{l, rest, k.stuck})
	}
}

// renewals are the commands that renew the leases.
func (d *dueLeases) renewals(now time.Duration) (all []renewal) {
	slices.SortFunc(d.together, func(a, b dueLease) int { return cmp.Compare(a.rest, b.rest) })
	for rest := d.together; len(rest) > 0; {
		size := batchSize
		var batch []*Handle
		due := now + rest[0].rest
		for len(batch) < min(size, len(rest)) {
			l := rest[len(batch)].Handle
			size = min(size, max(1, int(l.engine.Attempt(l.grant.Tag)/perStatement)))
			batch = append(batch, l)
		}
		rest = rest[len(batch):]
		// In one order, for the sake of servers that lock the documents until
		// the whole command is done: two batches would wait for each other.
		slices.SortFunc(batch, func(a, b *Handle) int {
			x, y := a.grant.DocID, b.grant.DocID
			return cmp.Or(cmp.Compare(x.Type, y.Type), bytes.Compare(x.Value, y.Value))
		})
		all = append(all, renewal{leases: batch, due: due})
	}
	for _, l := range d.alone {
		all = append(all, renewal{leases: []*Handle{l.Handle}, due: now + l.rest, stuck: l.stuck})
	}
	return all
}

// renew renews leases with one command, except those that are being renewed or
// released already. alone says of those that it failed to renew that they are
// not to stand in a command with others again: one of them may be the reason.
func renew(e *engine.Engine, leases []*Handle) (alone bool) {
	var ours []*Handle
	for _, l := range leases {
		if l.renewing.try() {
			defer l.renewing.leave()
			if l.Err() == nil {
				ours = append(ours, l)
			}
		}
	}
	switch len(ours) {
	case 0:
		return false
	case 1:
		l := ours[0]
		ctx, cancel := context.WithTimeout(context.Background(), e.Attempt(l.grant.Tag))
		defer cancel()
		_ = l.renew(ctx) // a loss it tells itself; anything else is tried again
		return false
	default:
		return renewAll(e, ours)
	}
}

// renewAll renews leases by rule 20. The command either matched all of their
// entries: then they are valid from its send on. Or a read must tell for how
// long each of them stands.
func renewAll(e *engine.Engine, leases []*Handle) (alone bool) {
	grants := make([]engine.Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	ctx, cancel := patienceFor(leases)
	got, failed := e.RenewAll(ctx, grants)
	cancel()
	if got.Outcome == engine.Renewed {
		for _, l := range leases {
			l.extend(validity{from: got.Sent, ttl: e.Lease(l.grant.Tag)})
		}
		return false
	}
	ctx, cancel = patienceFor(leases)
	defer cancel()
	standing, sent, err := e.Standing(ctx, grants)
	if err != nil {
		return false // nobody answers: no lease's fault
	}
	for _, l := range leases {
		span, there := standing[l.grant.ID]
		switch {
		case there:
			l.extend(lasting(span, sent, e.Lease(l.grant.Tag)))
		case failed == nil:
			l.lose()
		}
	}
	return failed != nil && !brokenOff(failed)
}

// brokenOff says that a connection broke, and nobody waited for an answer in
// vain: no document's doing. To renew a hundred leases one by one would then
// take a hundred commands, and on the new connections time that they don't have.
func brokenOff(err error) bool { return mongo.IsNetworkError(err) && !mongo.IsTimeout(err) }

// patienceFor bounds a command for several leases: by the attempt timeout, and
// so that each has time left to go alone.
func patienceFor(leases []*Handle) (context.Context, context.CancelFunc) {
	shortest := time.Duration(engine.MaxAttemptTimeout)
	for _, l := range leases {
		shortest = min(shortest, l.engine.Attempt(l.grant.Tag), l.left()/2)
	}
	return context.WithTimeout(context.Background(), shortest)
}

func (l *Handle) extend(v validity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.valid = l.valid.later(v)
}
