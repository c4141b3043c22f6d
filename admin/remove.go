package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Count is what [Remove] and [Sweep] have done.
type Count struct {
	Removed int64 `json:"removed"` // entries
	Deleted int64 `json:"deleted"` // documents, by DeleteIdle
	Foreign int64 `json:"foreign"` // documents whose lock field is not doclock's: left as they are
}

// batchSize is the number of entries or documents that one command changes. It
// is that of a batch of renewals: some servers lock the documents until the
// whole command is done, and the holders must not wait for long.
const batchSize = 100

// Remove removes the entries that a query asks for, held and waiting, from all
// documents of the collection: those of a program that died (Owner), of a machine
// that died (OwnerPrefix), or what else the query names. It finds them as [Entries]
// does, and removes up to 100 with each command, each one exactly as [Break] does.
// What an owner acquires in the meantime may stay: stop the program first. With
// Only: Expired the command judges each entry again by the server's clock, and one
// that was extended in the meantime stays: see [Sweep].
//
// A query that limits nothing, but for Only: Live, is refused as a
// [doclock.ErrInvalidArgument]: it would end every lease of the collection.
//
// If one document can't be written (a schema validator refuses it), the others are
// done, and the first such error is returned at the end. Any other error ends the
// work. In both cases Count is what is known to be removed, and a further call does
// the rest.
//
// Errors: those of [Break] without ErrNoEntry. Options: [Within], [Field], [ShardKey].
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
	w.remove(ctx, query)
	return w.count, w.err()
}

// work goes through a collection and changes it, batch by batch.
type work struct {
	*desk
	what    string
	count   Count
	refused error // the first refusal of a single document's change
	failed  error // what ended the work
}

func (w *work) err() error {
	if w.failed != nil {
		return w.failed
	}
	return w.refused
}

// remove removes the entries that a query asks for. An entry that an outside writer
// has damaged can't be named, and stays.
func (w *work) remove(ctx context.Context, q Query) {
	var batch []engine.Exact
	for e, err := range w.entries(ctx, q) {
		if errors.Is(err, doclock.ErrForeignLock) {
			w.count.Foreign++
			continue
		}
		if err != nil {
			w.failed = err
			return
		}
		x, err := exactly(e)
		if err != nil {
			continue
		}
		if q.Only == Expired {
			if e.Expires.IsZero() {
				continue
			}
			x.Expired = e.Expires
		}
		if batch = append(batch, x); len(batch) == batchSize {
			if w.removeEach(ctx, batch); w.failed != nil {
				return
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		w.removeEach(ctx, batch)
	}
}

func (w *work) removeEach(ctx context.Context, batch []engine.Exact) {
	n, err := w.engine.RemoveEach(ctx, batch)
	w.count.Removed += n
	w.done(err)
}

// done notes the end of one command.
func (w *work) done(err error) {
	switch {
	case err == nil:
	case engine.AnsweredPartly(err) && w.refused == nil:
		w.refused = written(w.what, err)
	case !engine.AnsweredPartly(err):
		w.failed = written(w.what, err)
	}
}
