package main

import (
	"errors"
	"sync/atomic"

	"github.com/doclock/doclock"
)

// Counts says what the adders and deleters did.
type Counts struct {
	Added     int64 `json:"added"`     // categories put on contacts
	Deleted   int64 `json:"deleted"`   // categories deleted
	Gone      int64 `json:"gone"`      // operations that found no category of the name
	Conflicts int64 `json:"conflicts"` // tries for a lock that the server refused or made wait
	Lost      int64 `json:"lost"`      // operations whose lock was lost, or may have been
	Commands  int64 `json:"commands"`  // sent to the server
}

// operations is the number of operations that ended, in any way.
func (c Counts) operations() int64 { return c.Added + c.Deleted + c.Gone + c.Lost }

func (c Counts) plus(d Counts) Counts {
	return Counts{
		Added:     c.Added + d.Added,
		Deleted:   c.Deleted + d.Deleted,
		Gone:      c.Gone + d.Gone,
		Conflicts: c.Conflicts + d.Conflicts,
		Lost:      c.Lost + d.Lost,
		Commands:  c.Commands + d.Commands,
	}
}

// A tally is Counts that many goroutines change.
type tally struct{ added, deleted, gone, conflicts, lost, commands atomic.Int64 }

func (t *tally) counts() Counts {
	return Counts{
		Added:     t.added.Load(),
		Deleted:   t.deleted.Load(),
		Gone:      t.gone.Load(),
		Conflicts: t.conflicts.Load(),
		Lost:      t.lost.Load(),
		Commands:  t.commands.Load(),
	}
}

// count counts an operation by how it ended: in done if there is no error, or by one of the expected errors. It returns any other
// error.
func (t *tally) count(done *atomic.Int64, err error) error {
	switch {
	case err == nil:
		done.Add(1)
	case errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown):
		t.lost.Add(1)
	case errors.Is(err, errNoCategory), errors.Is(err, doclock.ErrNotFound):
		t.gone.Add(1)
	default:
		return err
	}
	return nil
}
