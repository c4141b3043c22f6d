package observe

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Event is doclock.Event, which documents it. Conflict takes the place of its
// Holders: that is the error whose holders were in the way of a waiter.
type Event struct {
	Kind       Kind
	Time       time.Time
	Collection string
	DocumentID bson.RawValue
	Tag        string
	Owner      string
	LeaseID    uuid.UUID
	Fence      int64
	Waited     time.Duration
	Held       time.Duration
	Commands   int
	Conflict   error
	Err        error
	Dropped    int
}

// Kind is doclock.EventKind.
type Kind string

// The kinds of events.
const (
	Waiting        Kind = "waiting"
	StillWaiting   Kind = "still waiting"
	Granted        Kind = "granted"
	Skipped        Kind = "skipped"
	Refused        Kind = "refused"
	GaveUp         Kind = "gave up"
	Renewed        Kind = "renewed"
	RenewalFailed  Kind = "renewal failed"
	Lost           Kind = "lost"
	Released       Kind = "released"
	HandedOver     Kind = "handed over"
	Detached       Kind = "detached"
	OutcomeUnknown Kind = "outcome unknown"
	CleanUpFailed  Kind = "clean-up failed"
)

// Func is an observer's function.
type Func func(context.Context, Event)

// rank orders the events by what is lost with them. Those of the lowest rank are
// dropped first.
func (e *Event) rank() int {
	switch e.Kind {
	case Renewed:
		return 0
	case Waiting, StillWaiting, Skipped, Refused, GaveUp, RenewalFailed:
		return 1
	case Lost, OutcomeUnknown:
		return 3
	default: // a lease began or ended: who counts leases must see both
		return 2
	}
}
