package lease

import "github.com/doclock/doclock/internal/engine"

// Succession is the Locker's wait queue, as a release sees it.
type Succession interface {
	// Next claims the waiter of this process that the lock is handed over to: its
	// Answer will be called. It is nil where nobody waits, or where it is another
	// process's turn.
	Next(engine.Grant) Successor

	// Released is called when the lock was released to nobody.
	Released(engine.Grant)

	// Detached is called when the entry may have been left to the users of a
	// token: it stays in the document, and no release of this process ends it.
	Detached(engine.Grant)
}

// Successor is a waiter that is promised the lock.
type Successor interface {
	// Request is what the handoff grants.
	Request() engine.Successor

	// Answer is called once. With an image the lock was released, and the
	// outcome is the successor's: Granted since Sent, or not, as the image shows.
	// Without one nobody knows: the id may stand in the document.
	Answer(engine.Answer)
}
