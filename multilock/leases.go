package multilock

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
)

// Leases are leases that are held together. A lease may stand at several places;
// it is then renewed and released once.
type Leases []*doclock.Lease

// KeepAlive renews the leases, each until it is released or lost or ctx ends, as
// [doclock.Lease.KeepAlive] does. The context that it returns ends with the first
// loss (cause [doclock.ErrLost]), when all leases are released
// ([doclock.ErrReleased]), or with ctx. So a lease that is released before the
// others doesn't end it, whatever its release returns.
//
// After a loss the other leases are still renewed, until they are released or ctx
// ends.
func (ls Leases) KeepAlive(ctx context.Context) context.Context {
	return lease.KeepAlive(ctx, ls.handles())
}

// Release releases the leases, all at the same time, each as
// [doclock.Lease.Release] does, and waits for the answers. A lease that is lost
// stops no other lease's release. The errors are joined, and each names its
// document. A lease that was released before gives its answer once more, and
// sends nothing.
func (ls Leases) Release(ctx context.Context) error {
	handles := ls.handles()
	errs := make([]error, len(handles))
	var all sync.WaitGroup
	for i, h := range handles {
		all.Go(func() {
			if err := h.Release(ctx); err != nil {
				errs[i] = oneline.Because(fmt.Errorf("doclock: %q on document %s", h.Tag(), bsonvalue.Readable(h.DocumentID())), err)
			}
		})
	}
	all.Wait()
	return oneline.Join(errs...)
}

// unused says of leases that no caller has got that nobody used their locks.
func (ls Leases) unused() {
	for _, h := range ls.handles() {
		h.Unused()
	}
}

// handles are the leases, each once.
func (ls Leases) handles() (handles []*lease.Handle) {
	for _, l := range ls {
		if h := (*lease.Handle)(l); !slices.Contains(handles, h) {
			handles = append(handles, h)
		}
	}
	return handles
}
