package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Count is what [ReleaseOwner], [ReleaseOwners] and [Sweep] have done.
type Count struct {
	Removed int64 `json:"removed"` // entries
	Deleted int64 `json:"deleted"` // documents, by DeleteIdle
	Foreign int64 `json:"foreign"` // documents whose lock field is not doclock's: left as they are
}

// batchSize is the number of entries or documents that one command changes. It
// is that of a batch of renewals: some servers lock the documents until the
// whole command is done, and the holders must not wait for long.
const batchSize = 100

// ReleaseOwner removes the entries of one owner, held and waiting, from all
// documents of the collection: those of a program that died, or of all that used the
// same [doclock.Owner]. It finds them as [Entries] does, and removes up to 100 with
// each command, each one exactly as [Break] does. What the owner acquires in the
// meantime may stay: stop the program first.
//
// If one document can't be written (a schema validator refuses it), the others are
// released, and the first such error is returned at the end. Any other error ends
// the work. In both cases Count is what is known to be removed, and a further call
// does the rest.
//
// Errors: those of [Break] without ErrNoEntry. Options: [Within], [Progress],
// [Field], [ShardKey].
func ReleaseOwner(ctx context.Context, coll *mongo.Collection, owner string, opts ...Option) (Count, error) {
	return release(ctx, coll, "ReleaseOwner", owner, Query{Owner: owner}, opts)
}

// ReleaseOwners is [ReleaseOwner] for all owners whose names begin with the prefix,
// letter by letter. The default owners are host/pid/program: so "web-4/" is all
// programs of a machine, and "web-4" would be those of web-40 too.
func ReleaseOwners(ctx context.Context, coll *mongo.Collection, prefix string, opts ...Option) (Count, error) {
	return release(ctx, coll, "ReleaseOwners", prefix, Query{OwnerPrefix: prefix}, opts)
}

func release(ctx context.Context, coll *mongo.Collection, function, owner string, of Query, opts []Option) (Count, error) {
	d, err := open(ctx, coll, function, opts, "Within", "Progress")
	if err != nil {
		return Count{}, err
	}
	if owner == "" {
		return Count{}, fmt.Errorf("%w: the owner is empty; name one, as an Entry shows it", doclock.ErrInvalidArgument)
	}
	w := work{desk: d, what: "release an owner's entries"}
	w.remove(ctx, d.entries(ctx, of), always)
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

// remove removes the entries, each by what named makes of it.
func (w *work) remove(ctx context.Context, entries iter.Seq2[Entry, error], named func(Entry) (engine.Exact, bool)) {
	var batch []engine.Exact
	for e, err := range entries {
		switch x, ok := named(e); {
		case errors.Is(err, doclock.ErrForeignLock):
			w.count.Foreign++
			continue
		case err != nil:
			w.failed = err
			return
		case !ok:
			continue
		default:
			batch = append(batch, x)
		}
		if len(batch) == batchSize {
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
	if w.progress != nil {
		w.progress(w.count)
	}
}

// always names an entry whatever its expiry is. An entry that an outside
// writer has damaged can't be named.
func always(e Entry) (engine.Exact, bool) {
	x, err := exactly(e)
	return x, err == nil
}
