package hammer

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/history"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// client is a client of a team. It does one operation after another.
type client struct {
	*team
	number int // within the worker
	rng    *rand.Rand
	calls  int
	writes int
}

func newClient(t *team, number int, rng *rand.Rand) *client {
	return &client{team: t, number: number, rng: rng}
}

func (c *client) run() {
	for c.calls < c.Operations {
		c.attempt()
	}
}

// attempt tries to get a lock and, if it gets one, uses it.
func (c *client) attempt() {
	if c.Faults && c.rng.IntN(40) == 0 {
		c.ahead.Add(int64(time.Duration(c.rng.IntN(4000)-2000) * time.Millisecond))
		c.out.Fault(FaultJumpedClock)
	}
	d := c.Documents[1+c.rng.IntN(len(c.Documents)-1-jobs)]
	if c.rng.IntN(3) == 0 {
		d = c.Documents[2] // often requested
	}
	if c.rng.IntN(60) == 0 {
		d = c.Documents[0] // a missing document
	}
	if c.rng.IntN(12) == 0 {
		d = c.Documents[len(c.Documents)-1] // one of those that are claimed
	}
	tags := slices.Sorted(maps.Keys(d.Rules))
	a := &acquired{client: c, document: d, tag: tags[c.rng.IntN(len(tags))], locker: c.lockers[d.ID]}
	a.drawTerms()
	switch n := c.rng.IntN(10); {
	case d.Name == jobRules:
		a.claim()
	case d.Terms && n < 3 && a.takeToken():
		a.useToken()
	case n < 3:
		a.try()
	case n < 8:
		a.acquire()
	default:
		a.enqueue()
	}
	if a.lease != nil {
		a.live()
	}
	if pause := c.rng.IntN(12); pause > 0 {
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
}

// acquired is one attempt and its lease.
type acquired struct {
	*client
	document history.Document
	tag      string
	locker   *multilock.Locker
	lease    *doclock.Lease
	ticket   *multilock.Ticket
	terms    engine.Terms
	token    *token
}

func (a *acquired) filter() bson.M {
	switch a.rng.IntN(8) {
	case 0, 1: // a filter that doesn't pin the document, so that an acquire can't be repeated
		return bson.M{"_id": bson.M{"$in": bson.A{a.document.ID}}}
	case 2: // a filter that pins it, and demands more
		return bson.M{"_id": a.document.ID, "name": a.document.Name}
	default:
		return bson.M{"_id": a.document.ID}
	}
}

// impatient is a context that, in a part of the cases, ends during the command.
func (a *acquired) impatient() (context.Context, context.CancelFunc) {
	if !a.Faults || a.rng.IntN(12) > 0 {
		return context.WithCancel(context.Background())
	}
	a.out.Fault(FaultCancelled)
	return context.WithTimeout(context.Background(), time.Duration(a.rng.IntN(12_000))*time.Microsecond)
}

// do records one operation around its call.
func (a *acquired) do(kind, write string, call func() error) (outcome string) {
	a.calls++
	o := history.Operation{
		Process: a.Process, Client: a.number, Number: a.recorder.Number(), Kind: kind,
		Document: a.document.ID, Tag: a.tag, Write: write,
		Wall: time.Now().UnixNano() + a.ahead.Load(),
	}
	a.name(&o)
	o.Call = a.clock.Now()
	a.out.Operation(o)
	had := a.lease
	err := call()
	o.Return = a.clock.Now()
	a.name(&o)
	if a.lease != nil {
		a.audit.told(a.lease, a.lease != had, err)
	}
	o.Outcome = a.meaning(kind, err)
	if err != nil && o.Outcome != history.Conflict {
		o.Error = err.Error()
	}
	a.out.Operation(o)
	return o.Outcome
}

func (a *acquired) name(o *history.Operation) {
	id := uuid.Nil
	switch {
	case a.lease != nil:
		id, o.Fence, o.Tag = a.lease.ID(), a.lease.Fence(), a.lease.Tag()
		o.Document = a.document.ID
	case a.ticket != nil:
		id = a.ticket.ID()
	}
	if id != uuid.Nil {
		o.ID = hex.EncodeToString(id[:])
	}
	o.TTL, o.Least = a.terms.TTL.Milliseconds(), a.terms.Least.Milliseconds()
}

// grants are the operations that make a lease.
var grants = []string{
	history.TryAcquire, history.Acquire, history.Enqueue, history.Confirm, history.Wait,
	history.Claim, history.Resume, history.Downgrade,
}

func (a *acquired) meaning(kind string, err error) string {
	switch {
	case err == nil && a.lease != nil && slices.Contains(grants, kind):
		return history.Granted
	case err == nil && kind == history.Enqueue:
		return history.Waiting
	case err == nil:
		return history.Done
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return history.Unknown
	case errors.Is(err, doclock.ErrLost):
		return history.Lost
	case errors.Is(err, doclock.ErrReleased):
		return history.Released
	case errors.Is(err, doclock.ErrNotFound):
		return history.NotFound
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if kind == history.Renew {
			return history.Unknown // without a verdict: the write may have been executed
		}
		return history.Timeout
	case errors.Is(err, doclock.ErrConflict):
		return history.Conflict
	default:
		if kind == history.Renew {
			return history.Unknown
		}
		return history.Failed
	}
}

func (a *acquired) try() {
	ctx, cancel := a.impatient()
	defer cancel()
	a.do(history.TryAcquire, "", func() (err error) {
		a.lease, err = a.locker.TryAcquire(ctx, a.filter(), a.tag, a.option)
		return err
	})
}

func (a *acquired) acquire() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+a.rng.IntN(900))*time.Millisecond)
	defer cancel()
	a.do(history.Acquire, "", func() (err error) {
		a.lease, err = a.locker.Acquire(ctx, a.filter(), a.tag, a.option)
		return err
	})
}

// enqueue takes a place in the queue. Then it waits by hand, lets Wait do it,
// gives up, or vanishes.
func (a *acquired) enqueue() {
	a.do(history.Enqueue, "", func() (err error) {
		ctx, cancel := a.impatient()
		defer cancel()
		a.ticket, err = a.locker.Enqueue(ctx, a.filter(), a.tag, a.option)
		if err == nil && a.ticket.Granted() {
			a.lease, err = a.ticket.Confirm(context.Background()) // sends nothing
		}
		return err
	})
	if a.ticket == nil || a.lease != nil {
		return
	}
	switch a.rng.IntN(9) {
	case 8:
		time.Sleep(time.Duration(a.document.WaitTTL+a.document.Tolerance+50+a.rng.Int64N(100)) * time.Millisecond) // past its life
		a.do(history.Confirm, "", func() (err error) {
			a.lease, err = a.ticket.Confirm(context.Background())
			return err
		})
		if a.lease == nil {
			a.abandon()
		}
	case 0:
		a.abandon()
	case 1:
		a.vanish()
	case 2, 3, 4:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+a.rng.IntN(700))*time.Millisecond)
		defer cancel()
		a.do(history.Wait, "", func() (err error) {
			a.lease, err = a.ticket.Wait(ctx)
			return err
		})
		if a.lease == nil {
			a.abandon()
		}
	default:
		for range 12 {
			time.Sleep(min(time.Until(a.ticket.RetryAt()), 100*time.Millisecond) + time.Duration(a.rng.IntN(20))*time.Millisecond)
			outcome := a.do(history.Confirm, "", func() (err error) {
				ctx, cancel := a.impatient()
				defer cancel()
				a.lease, err = a.ticket.Confirm(ctx)
				return err
			})
			if a.lease != nil || outcome == history.Lost {
				return
			}
		}
		a.abandon()
	}
}

func (a *acquired) abandon() {
	a.do(history.Cancel, "", func() error { return a.ticket.Cancel(context.Background()) })
}

func (a *acquired) vanish() {
	a.do(history.Crash, "", func() error { return nil })
	a.out.Fault(FaultCrashed)
}
