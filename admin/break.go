package admin

import (
	"context"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Break removes exactly this entry, held or waiting, whoever holds it, and returns
// it as it was. It sends one command. It finds the entry by the document, the tag,
// the id and the fencing token. So entry may come from [Inspect], from [Entries], or
// from the JSON of an Entry. If the document has no such entry any more, nothing
// changes, and the error is [ErrNoEntry]: see who is there now.
//
// From then on the server refuses the holder's guarded writes, and grants the lock
// to others. The holder may still believe in its lease until its next command, or
// until the lease's validity ends: at most the TTL after its last renewal was sent.
// With [doclock.Lease.KeepAlive] or Do the next renewal finds out, at most a third
// of the TTL later, and their contexts end. So a write to another document may still
// come, as after any loss.
//
//   - An entry that several goroutines share ([doclock.ShareInProcess]) is lost to
//     all of them.
//   - The token of an entry resumes nothing any more.
//   - An entry with an Until leaves no remainder.
//   - A waiting entry loses its place. Its waiter gets a [doclock.ErrLost].
//   - An acquire whose answer got lost asks again, and may be granted anew.
//   - A release whose first request got lost finds no entry, takes the removal for
//     its own, and returns nil. So don't break the lock of a holder that is about to
//     release it.
//
// Waiters in other processes find out at their next poll; Break wakes nobody.
//
// After a [doclock.ErrOutcomeUnknown] the entry may be removed, or may be yet. Call
// Break again: it removes the entry if it is still there. The other errors are
// [doclock.ErrInvalidArgument], [doclock.ErrInTransaction],
// [doclock.ErrUnsupportedServer], and the driver's. Options: [Field], [ShardKey].
func Break(ctx context.Context, coll *mongo.Collection, entry Entry, opts ...Option) (Entry, error) {
	d, err := open(ctx, coll, "Break", opts)
	if err != nil {
		return Entry{}, err
	}
	x, err := exactly(entry)
	if err != nil {
		return Entry{}, err
	}
	before, err := d.engine.RemoveExactly(ctx, x)
	if err != nil {
		return Entry{}, written("break an entry", err)
	}
	if before == nil {
		return Entry{}, ErrNoEntry
	}
	was, _ := before.Lock.Find(entry.Tag, entry.ID)
	return d.entryOf(before, was), nil
}

// exactly names an entry, if it can be named.
func exactly(e Entry) (engine.Exact, error) {
	if e.DocumentID.IsZero() || e.ID == uuid.Nil {
		return engine.Exact{}, fmt.Errorf("%w: the entry has no document or no id; give one that Inspect or Entries returned", doclock.ErrInvalidArgument)
	}
	if err := checkTags([]string{e.Tag}); err != nil {
		return engine.Exact{}, err
	}
	pin := engine.Pin{{Key: "_id", Value: e.DocumentID}}
	beside, err := e.ShardKey.Elements()
	if e.ShardKey != nil && err != nil {
		return engine.Exact{}, fmt.Errorf("%w: the entry's shard key: %w", doclock.ErrInvalidArgument, err)
	}
	for _, field := range beside {
		pin = append(pin, bson.E{Key: field.Key(), Value: field.Value()})
	}
	return engine.Exact{Pin: pin, Tag: e.Tag, ID: e.ID, Fence: e.Fence}, nil
}
