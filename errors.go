package doclock

import (
	"errors"

	"github.com/doclock/doclock/internal/lease"
)

// The errors to test for with [errors.Is]. Errors of the driver stay reachable
// through [errors.As].
var (
	// ErrNotAcquired: the caller doesn't hold the lock. Every error of an
	// acquire is one, beside its cause. An error of Do that is one says that the
	// function was never called. An acquire inside the function doesn't make it one.
	ErrNotAcquired = errors.New("doclock: not acquired")

	// ErrNotFound: no document matches the filter, or, with [SkipLocked], none that
	// matches is free. That of an acquire names the collection, and the _id that the
	// filter demands or else the filter.
	ErrNotFound = errors.New("doclock: no such document")

	// ErrConflict: others hold the lock, or came first. The error is a
	// [*ConflictError] that names them. A refused [Lease.Downgrade] leaves the lease
	// as it is.
	ErrConflict = errors.New("doclock: conflict")

	// ErrLost: the lease ended before it was released. Its time ran out, or its
	// entry is not in the document any more. Others may have been let in since. An
	// error of Do, DoAll, Lead or Release that is one speaks of that call's lock.
	ErrLost = lease.ErrLost

	// ErrReleased: the lease was released, detached or downgraded, or its ticket
	// cancelled.
	ErrReleased = lease.ErrReleased

	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("doclock: locker closed")

	// ErrInvalidArgument: an option, a filter, a tag, a token, an update or a
	// collection can't be used. The error says what was wrong and what would be right.
	// Nothing was sent.
	ErrInvalidArgument = lease.ErrInvalidArgument

	// ErrInTransaction: the context carries a running transaction. Inside it
	// the lock would stay hidden until the commit; outside, the command could
	// wait for the transaction's own writes.
	ErrInTransaction = lease.ErrInTransaction

	// ErrForeignLock: the lock field holds something that is not a lock of
	// doclock's. It was left as it is. [Field] chooses another field.
	ErrForeignLock = errors.New("doclock: foreign lock field")

	// ErrOutcomeUnknown, of a write, a delete, a detach or a downgrade: it may have
	// been executed, or may be yet. Of a release, and so of Do, DoAll and Lead: nobody
	// knows whether others were let in while the lease was held. Whether the release was
	// executed is another question: one that was never sent was not, but if the
	// lease's time is up, somebody may have the lock. The error wraps what the driver
	// said. No acquire returns it: a caller without a lease holds nothing, and what an
	// acquire may have been granted is released in the background.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrUnsupportedServer: the server can't run the protocol. See
	// [CheckServer].
	ErrUnsupportedServer = errors.New("doclock: unsupported server")
)
