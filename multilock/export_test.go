package multilock

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// keyOf names a document by its _id.
func keyOf(id any) string {
	kind, data, _ := bson.MarshalValue(id)
	return waitqueue.Key(engine.Pin{{Key: "_id", Value: bson.RawValue{Type: kind, Value: data}}})
}

// OwnerOf is the owner of a Locker without the option.
var OwnerOf = ownerOf

// Waiters is how many wait for a document and don't ask.
func (l *Locker) Waiters(id any) int { return l.queues.Waiting(keyOf(id)) }

// BehindTheBound is how many commands to a document wait to be sent.
func (l *Locker) BehindTheBound(id any) int {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	if lane := l.slots.lanes[keyOf(id)]; lane != nil {
		return lane.users - len(lane.slots)
	}
	return 0
}

// WaitQueues is how many documents the Locker keeps a wait queue for.
func (l *Locker) WaitQueues() int { return l.queues.Documents() }

// The bounds of the acquires that are under way.
const (
	MostPerDocument = mostPerDocument
	MostPerLocker   = mostPerLocker
)

// Leftovers is how many ids wait for their clean-up.
func (l *Locker) Leftovers() int {
	l.cleanup.mu.Lock()
	defer l.cleanup.mu.Unlock()
	n := 0
	for _, p := range l.cleanup.debts {
		n += len(p.ids)
	}
	return n
}

// Claimants is how many claims sleep.
func (l *Locker) Claimants() (n int) {
	l.idle.mu.Lock()
	defer l.idle.mu.Unlock()
	for _, q := range l.idle.queues {
		n += len(q.claims)
	}
	return n
}

// Life is for how long the clean-up looks for an entry of an acquire with these
// options.
func (l *Locker) Life(filter any, tag string, opts ...doclock.AcquireOption) (time.Duration, error) {
	a, err := l.begin(context.Background(), filter, tag, opts)
	if err != nil {
		return 0, err
	}
	return l.cleanup.life(a.request), nil
}

// ObserveNobody does what an acquire does for an observer.
func (l *Locker) ObserveNobody(ctx context.Context) (same bool) {
	o := l.observed(ctx, nil)
	o.emitQueued(nil)
	o.emitWaiting(doclock.ErrConflict)
	o.emitEnd(ctx, nil, doclock.ErrConflict)
	l.emitFailed(bson.RawValue{}, "write", uuid.Nil, doclock.ErrConflict)
	return o.count(ctx) == ctx
}

// Owe has the clean-up look for an entry of document 1 under "write", which an attempt
// of this time may have made.
func (l *Locker) Owe(id uuid.UUID, sent time.Time) error {
	owe, err := l.Owing(id)
	if err == nil {
		owe(sent)
	}
	return err
}

// Owing is Owe for later: a Locker that is closing begins nothing.
func (l *Locker) Owing(id uuid.UUID) (owe func(sent time.Time), err error) {
	a, err := l.begin(context.Background(), bson.M{"_id": 1}, "write", nil)
	if err != nil {
		return nil, err
	}
	a.request.ID = id
	return func(sent time.Time) {
		l.cleanup.add(engine.Filter{Pin: a.filter.Pin}, a.request, sent, leftover{entries: 1})
	}, nil
}

// Shares is how many shared leases the Locker remembers.
func (l *Locker) Shares() int {
	l.shares.mu.Lock()
	defer l.shares.mu.Unlock()
	return len(l.shares.all)
}

// Ask owes the entry of document 1 under "write", which an attempt may make, to somebody
// who waits for an answer.
func (l *Locker) Ask(answer func(error)) error {
	a, err := l.begin(context.Background(), bson.M{"_id": 1}, "write", nil)
	if err == nil {
		l.cleanup.discard(engine.Filter{Pin: a.filter.Pin}, a.request, unsure{n: 1, last: time.Now()}, false, answer)
	}
	return err
}
