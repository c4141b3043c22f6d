package multilock

import (
	"context"
	"errors"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Waiters is how many stand in a document's line.
func (l *Locker) Waiters(id any) int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	kind, data, _ := bson.MarshalValue(id)
	line := l.queue.lines[key(engine.Pin{{Key: "_id", Value: bson.RawValue{Type: kind, Value: data}}})]
	if line == nil {
		return 0
	}
	n := 0
	for _, t := range line.tags {
		for e := t.Front(); e != nil; e = e.Next() {
			if e.Value.(*waiter).state == asleep {
				n++
			}
		}
	}
	return n
}

// Lines is how many documents the Locker remembers waiters of.
func (l *Locker) Lines() int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return len(l.queue.lines)
}

// GiveUp lets a waiter stand in line that is handed the lock by give, and
// leaves before it takes notice.
func (l *Locker) GiveUp(ctx context.Context, filter any, tag string, give func() error) error {
	a, err := l.begin(ctx, filter, tag, nil)
	if err != nil {
		return err
	}
	t, refused := a.arrive(ctx)
	w := l.queue.join(a, key(a.locker.engine.Pin(a.seen)), t, a.seen)
	defer l.queue.leave(w)
	if err := give(); err != nil {
		return err
	}
	if w.answer.Image == nil {
		return errors.Join(errors.New("it was handed nothing"), refused)
	}
	return nil
}

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
	for _, p := range l.cleanup.places {
		n += len(p.left)
	}
	return n
}

// OnFailedCleanUp observes the clean-ups that fail.
func (l *Locker) OnFailedCleanUp(failed func(error)) { l.cleanup.failed = failed }
