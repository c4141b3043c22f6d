package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Break removes exactly this entry, held or waiting, whoever holds it, and returns
// it as it was. It sends one command, which finds the entry by the document, the
// tag, the id and the fencing token. So entry may come from [Inspect], from [Entries],
// or from the JSON of an Entry. It sends three more if transactions under it may be
// open ([doclock.Lease.WithTransaction]): those that have begun are committed, or
// never. If the document has no such entry any more, nothing changes, and the error is
// [ErrNoEntry].
//
// The holder may still believe in its lease until its next command or renewal, or
// until its validity ends: at most the TTL after its last renewal was sent. Until
// then it may write to other documents, as after any loss. A waiter gets a
// [doclock.ErrLost], a token resumes nothing, an entry with an Until leaves no
// remainder, and an entry that goroutines share ([doclock.ShareInProcess]) is lost
// to all of them. An acquire whose answer got lost asks again, and may be granted
// anew. A release whose first request got lost can't tell the removal from its own: it
// returns a [doclock.ErrOutcomeUnknown].
//
// After a [doclock.ErrOutcomeUnknown], as beside an open transaction under the entry, call
// Break again. The other errors are [doclock.ErrForeignLock], [doclock.ErrInvalidArgument],
// [doclock.ErrInTransaction], [doclock.ErrUnsupportedServer], and the driver's.
// Options: [Field], [ShardKey].
func Break(ctx context.Context, coll *mongo.Collection, entry Entry, opts ...Option) (Entry, error) {
	d, err := open(ctx, coll, "Break", opts)
	if err != nil {
		return Entry{}, err
	}
	x, err := exactly(entry)
	if err != nil {
		return Entry{}, err
	}
	before, err := d.remove(ctx, x)
	if err != nil {
		return Entry{}, writeError("break an entry", err)
	}
	if before == nil {
		return Entry{}, ErrNoEntry
	}
	was, _ := before.Lock.Find(entry.Tag, entry.ID)
	return d.entryOf(before, was), nil
}

// mostSettles is how often a break settles the transactions of a holder who begins new ones.
const mostSettles = 5

// remove removes an entry, and returns the image from before, or nil. If transactions of its
// holder may be open, it settles them first (rule 28).
func (d *desk) remove(ctx context.Context, x engine.Exact) (before *engine.Image, err error) {
	for range mostSettles {
		err = d.write(ctx, func(ctx context.Context) (err error) { before, err = d.engine.RemoveExactly(ctx, x); return err })
		if before != nil || err != nil {
			return before, err
		}
		var now *engine.Image
		err = d.write(ctx, func(ctx context.Context) (err error) { now, err = d.engine.Read(ctx, x.Pin); return err })
		if now == nil || err != nil {
			return nil, err
		}
		own, there := now.Lock.Find(x.Tag, x.ID)
		lives := !x.Expired.IsZero() && (!own.Expires.Equal(x.Expired) || own.Expires.After(now.Now)) // and so a sweep leaves it
		if !there || own.Fence != x.Fence || !own.HasMark() || lives {
			return nil, nil
		}
		_, err = attempt.Settle(ctx, d.bounds(), func(ctx context.Context) error { return d.engine.Settle(ctx, own.Mark) })
		if err != nil {
			return nil, fmt.Errorf("a transaction of its holder may be open: %w", err)
		}
		x.Settled = own.Mark.ID
	}
	return nil, fmt.Errorf("%w: its holder begins new transactions all the time", doclock.ErrOutcomeUnknown)
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

// Count is what [Remove] and [Sweep] have done.
type Count struct {
	Removed int64 `json:"removed"` // entries
	Deleted int64 `json:"deleted"` // documents, by DeleteIdle
	Foreign int64 `json:"foreign"` // documents whose lock field is not doclock's: left as they are
}

// Remove removes the entries that a query asks for, held and waiting: those of a
// program that died (Owner), of a machine that died (OwnerPrefix), or what else the
// query names. It finds them as [Entries] does, and removes up to 100 with each
// command, each one exactly as [Break] does. What an owner acquires in the meantime
// may stay: stop the program first. A query that limits nothing, but for Only: Live,
// is a [doclock.ErrInvalidArgument]: it would end every lease of the collection.
//
// If one document can't be written (a schema validator refuses it, or a transaction keeps
// it locked), the others are done, and the first such error is returned at the end. Any
// other error ends the work. In both cases Count is what is known to be removed, and a
// further call does the rest. Entries under which transactions may be open come last.
//
// Errors: those of [Break] without ErrNoEntry. Options: [Within], [Field],
// [ShardKey].
func Remove(ctx context.Context, coll *mongo.Collection, query Query, opts ...Option) (Count, error) {
	d, err := open(ctx, coll, "Remove", opts, "Within")
	if err != nil {
		return Count{}, err
	}
	if err := query.check(); err != nil {
		return Count{}, err
	}
	if query.Owner == "" && query.OwnerPrefix == "" && len(query.Tags) == 0 && query.OlderThan == 0 && query.Only != Expired {
		return Count{}, fmt.Errorf("%w: the query asks for all entries; name an Owner, an OwnerPrefix, Tags, OlderThan, or Only: Expired", doclock.ErrInvalidArgument)
	}
	w := work{desk: d, what: "remove entries"}
	err = w.remove(ctx, query)
	return w.count, cmp.Or(err, w.refused)
}

// Sweep removes the expired entries of a collection: held ones, waiting ones and
// remainders. No lock needs it: each grant prunes its document. It is for documents
// that nobody locks any more, and for people who read the field. It is [Remove] with
// Only: Expired, whose command judges each entry again by the server's clock: one
// that was extended in the meantime stays, and a holder that comes later is refused.
//
// With [DeleteIdle] it then deletes the documents that
//
//   - have no field but _id and the lock (and those of [ShardKey]);
//   - have no live entry, and where the last entry was granted or joined at least
//     that long ago (renewals don't count, so a long lease may have ended a moment
//     ago);
//   - have ended no lease with a write ([doclock.Lease.UpdateAndRelease] leaves its
//     id in the lock), and have lost no held entry to Break or Remove.
//
// Every other document stays, also one that an acquire with [doclock.Upsert] just
// made, or that is locked in the meantime: the command that deletes checks all of
// this. An acquire that finds its document deleted makes it anew with Upsert, and
// the fencing tokens go on increasing; without Upsert it gets a [doclock.ErrNotFound].
//
// Errors and Count are as those of [Remove]. Options: [DeleteIdle], [Within],
// [Field], [ShardKey].
func Sweep(ctx context.Context, coll *mongo.Collection, opts ...Option) (Count, error) {
	d, err := open(ctx, coll, "Sweep", opts, "DeleteIdle", "Within")
	if err != nil {
		return Count{}, err
	}
	w := work{desk: d, what: "sweep"}
	if err = w.remove(ctx, Query{Only: Expired}); err == nil && d.idle > 0 {
		err = w.deleteIdle(ctx)
	}
	return w.count, cmp.Or(err, w.refused)
}

// batchSize is the number of entries or documents that one command changes. It
// is that of a batch of renewals: some servers lock the documents until the
// whole command is done, and the holders must not wait for long.
const batchSize = 100

// work goes through a collection and changes it, batch by batch.
type work struct {
	*desk
	what    string
	count   Count
	refused error // the first refusal of a single document's change
}

// together changes documents with one command. If it takes too long, somebody's transaction may have
// locked one of them: each is changed by itself then.
func (w *work) together(ctx context.Context, all []engine.Exact, count *int64, send func(context.Context, []engine.Exact) (int64, error)) error {
	change := func(ctx context.Context, some []engine.Exact) error {
		return w.write(ctx, func(ctx context.Context) error {
			ctx, cancel, err := w.engine.Bound(ctx, w.bounds().Timeout)
			if err != nil {
				return err
			}
			defer cancel()
			n, err := send(ctx, some)
			*count += n
			return err
		})
	}
	err := change(ctx, all)
	if len(all) == 1 || !engine.Late(err) {
		return w.done(ctx, all[0], err)
	}
	for i, one := range all {
		if err := w.done(ctx, one, change(ctx, all[i:i+1])); err != nil {
			return err
		}
	}
	return nil
}

// done keeps for the end what concerns a single document: its refusal, or a change that took too long,
// though a read is answered. Other errors of a command end the work.
func (w *work) done(ctx context.Context, one engine.Exact, err error) error {
	switch {
	case err == nil:
		return nil
	case engine.AnsweredPartly(err), engine.AsFailure(err).Unfit != 0:
	case engine.Late(err) && w.write(ctx, func(ctx context.Context) error { _, err := w.engine.Read(ctx, one.Pin); return err }) == nil:
		err = fmt.Errorf("document %s: %w", bsonvalue.Readable(one.Pin.ID()), err)
	default:
		return writeError(w.what, err)
	}
	w.refused = cmp.Or(w.refused, writeError(w.what, err))
	return nil
}

// remove removes the entries that a query asks for. One without an id or an expiry,
// or under a name that no rules can have, stays: only an outside writer makes it,
// and the next grant prunes it.
func (w *work) remove(ctx context.Context, q Query) error {
	var batch, marked []engine.Exact
	send := func(least int) error {
		if len(batch) < least {
			return nil
		}
		err := w.together(ctx, batch, &w.count.Removed, w.engine.RemoveEach)
		batch = batch[:0]
		return err
	}
	for e, err := range w.entries(ctx, q) {
		if errors.Is(err, doclock.ErrForeignLock) {
			w.count.Foreign++
			continue
		}
		if err != nil {
			return err
		}
		x, err := exactly(e)
		if q.Only == Expired {
			x.Expired = e.Expires
		}
		if err != nil || q.Only == Expired && e.Expires.IsZero() {
			continue
		}
		if e.HasTransactions {
			marked = append(marked, x)
			continue
		}
		batch = append(batch, x)
		if err := send(batchSize); err != nil {
			return err
		}
	}
	if err := send(1); err != nil {
		return err
	}
	for _, x := range marked {
		was, err := w.desk.remove(ctx, x)
		if was != nil {
			w.count.Removed++
		}
		if engine.AsFailure(err).Cause == engine.CauseForeign {
			w.count.Foreign++
		} else if err := w.done(ctx, x, err); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) deleteIdle(ctx context.Context) error {
	var batch []engine.Exact // but for the entry
	send := func(least int) error {
		if len(batch) < least {
			return nil
		}
		err := w.together(ctx, batch, &w.count.Deleted, func(ctx context.Context, some []engine.Exact) (int64, error) {
			pins := make([]engine.Pin, len(some))
			for i, x := range some {
				pins[i] = x.Pin
			}
			return w.engine.DeleteIdle(ctx, pins, w.idle)
		})
		batch = batch[:0]
		return err
	}
	for img, err := range w.surveyed(ctx, engine.Survey{Within: w.survey, Idle: w.idle}) {
		if err != nil {
			if err = readError(w.what, err); errors.Is(err, doclock.ErrForeignLock) {
				continue
			}
			return err
		}
		batch = append(batch, engine.Exact{Pin: w.engine.Pin(img)})
		if err := send(batchSize); err != nil {
			return err
		}
	}
	return send(1)
}
