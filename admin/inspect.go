package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Lock is the lock of one document, as one read found it.
type Lock struct {
	DocumentID bson.RawValue // the document's _id
	Now        time.Time     // the server's clock at the read
	Fence      int64         // the last value given out, as a fencing token or an order of arrival
	Entries    []Entry       // in the order of arrival

	// InTheWay has, for each tag of the option [Rules], the ids of the live entries
	// that keep an acquire under it back now, in the order of their tags. The list
	// is empty if nothing keeps the tag back. Without Rules InTheWay is nil.
	InTheWay map[string][]uuid.UUID
}

// Inspect reads the entries of one document that the filter matches, in one read. A
// document without a lock has no entries. A cooperative waiter has none: see
// [Waiting].
//
// Errors: [doclock.ErrNotFound], [doclock.ErrForeignLock],
// [doclock.ErrInvalidArgument], [relations.ErrInvalidRules],
// [doclock.ErrInTransaction], [doclock.ErrUnsupportedServer], and the driver's.
//
// Options: [Rules], [Field], [ShardKey].
func Inspect(ctx context.Context, coll *mongo.Collection, filter any, opts ...Option) (*Lock, error) {
	d, err := open(ctx, coll, "Inspect", opts, "Rules")
	if err != nil {
		return nil, err
	}
	f, err := d.engine.ParseFilter(filter)
	if err != nil {
		return nil, fmt.Errorf("%w: the filter: %w", doclock.ErrInvalidArgument, err)
	}
	img, err := d.engine.Find(ctx, f)
	if err != nil {
		return nil, read("inspect a lock", err)
	}
	if img == nil {
		return nil, doclock.ErrNotFound
	}
	lock := &Lock{DocumentID: img.ID, Now: utc(img.Now), Fence: img.Lock.Fence, Entries: d.entriesOf(img)}
	if d.rules != nil {
		lock.InTheWay = map[string][]uuid.UUID{}
	}
	for tag := range d.rules {
		blocking, _ := engine.InTheWay(d.rules, img, tag, nil)
		lock.InTheWay[tag] = idsOf(blocking)
	}
	return lock, nil
}
