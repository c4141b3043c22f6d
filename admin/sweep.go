package admin

import (
	"context"
	"errors"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Sweep removes the expired entries of a collection: held ones, waiting ones and
// remainders. No lock needs it: each grant prunes its document. It is for documents
// that nobody locks any more, and for people who read the field.
//
// It is safe beside running programs. It finds the entries as [Entries] does, and
// removes up to 100 with each command. The command judges each one again by the
// server's clock: an entry that was extended in the meantime stays. An expired entry
// excludes nobody, but while it is there its holder's guarded writes are applied,
// and its token can be resumed. After a Sweep such a late holder is refused, as if
// another had been granted the lock.
//
// With [DeleteIdle] it then deletes the documents that
//
//   - have no field but _id and the lock (and those of [ShardKey]);
//   - have no live entry, and where the last entry was granted or joined at least
//     that long ago (renewals don't count, so a long lease may have ended a moment
//     ago);
//   - have ended no lease with a write ([doclock.Lease.UpdateAndRelease] leaves its
//     id in the lock).
//
// Every other document stays, also one that an acquire with [doclock.Upsert] just
// made and has not locked yet. The command that deletes checks all of this, so a
// document that is locked in the meantime stays. An acquire that finds its document
// deleted makes it anew, if its Locker has the option Upsert, and else fails with
// [doclock.ErrNotFound]. The fencing tokens of the new document go on increasing,
// because they follow the clock.
//
// An entry without an id, or under a name that no rules can have, stays. Only an
// outside writer makes one, and the next grant prunes it.
//
// Errors and Count are as those of [Remove]. Options: [DeleteIdle], [Within],
// [Field], [ShardKey].
func Sweep(ctx context.Context, coll *mongo.Collection, opts ...Option) (Count, error) {
	d, err := open(ctx, coll, "Sweep", opts, "DeleteIdle", "Within")
	if err != nil {
		return Count{}, err
	}
	w := work{desk: d, what: "sweep"}
	w.remove(ctx, Query{Only: Expired})
	if w.failed == nil && d.idle > 0 {
		w.deleteIdle(ctx)
	}
	return w.count, w.err()
}

func (w *work) deleteIdle(ctx context.Context) {
	var batch []engine.Pin
	for img, err := range w.engine.Survey(ctx, engine.Survey{Within: w.survey, Idle: w.idle}) {
		if err != nil {
			if err = read(w.what, err); errors.Is(err, doclock.ErrForeignLock) {
				continue
			}
			w.failed = err
			return
		}
		if batch = append(batch, w.engine.Pin(img)); len(batch) == batchSize {
			if w.deleteEach(ctx, batch); w.failed != nil {
				return
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		w.deleteEach(ctx, batch)
	}
}

func (w *work) deleteEach(ctx context.Context, batch []engine.Pin) {
	n, err := w.engine.DeleteIdle(ctx, batch, w.idle)
	w.count.Deleted += n
	w.done(err)
}
