package doclock

import "errors"

// The errors to test for with [errors.Is]. Errors of the driver stay reachable
// through [errors.As].
var (
	// ErrNotAcquired: the caller doesn't hold the lock. Every error of an acquire is
	// one, beside its cause. If an error of Do is one, its function was never
	// called; an error of an acquire inside the function doesn't count.
	ErrNotAcquired = errors.New("doclock: not acquired")

	// ErrNotFound: no document matches the filter, or, with [SkipLocked], none that
	// matches is free. The text names the collection, and the _id or the whole
	// filter.
	ErrNotFound = errors.New("doclock: no such document")

	// ErrConflict: others hold the lock, or came first. The error is a
	// [*ConflictError], which names them. After a refused [Lease.Downgrade] the
	// lease goes on as it was.
	ErrConflict = errors.New("doclock: conflict")

	// ErrLost: the lease ended before it was released. Its time ran out, or its
	// entry is not in the document any more. Others may have been let in since. The error
	// is a [*LostError], which says which lock and why. From Do, DoAll, Lead and Release
	// it speaks of that call's own lock.
	ErrLost = errors.New("doclock: lock lost")

	// ErrReleased: the lease was released, detached or downgraded, or the ticket was
	// cancelled. Nothing was sent.
	ErrReleased = errors.New("doclock: lock released")

	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("doclock: locker closed")

	// ErrInvalidArgument: an option, a filter, a tag, a token, an update or a
	// collection can't be used. The error says what was wrong and what would be right.
	// Nothing was sent.
	ErrInvalidArgument = errors.New("doclock: invalid argument")

	// ErrInTransaction: the context carries a running transaction. Inside it
	// the lock would stay hidden until the commit; outside, the command could
	// wait for the transaction's own writes.
	ErrInTransaction = errors.New("doclock: context carries a running transaction")

	// ErrForeignLock: the lock field holds something that is not a lock of
	// doclock's, or a lock that a newer version has written, as the text says then.
	// Nothing was changed. [Field] chooses another field.
	ErrForeignLock = errors.New("doclock: foreign lock field")

	// ErrOutcomeUnknown, of a write, a delete, a detach or a downgrade: the server
	// may have executed it, or may do so yet. Of a release, and so of Do, DoAll and
	// Lead: nobody knows whether others were let in while the lease was held. (So a
	// release that was never sent has this error if the lease's time is up.) The
	// error wraps the driver's. No acquire returns it: its caller holds nothing, and
	// what it may have been granted is released in the background.
	ErrOutcomeUnknown = errors.New("doclock: outcome unknown")

	// ErrUnsupportedServer: the server can't run the protocol. See
	// [CheckServer].
	ErrUnsupportedServer = errors.New("doclock: unsupported server")
)
