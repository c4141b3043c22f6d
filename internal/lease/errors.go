package lease

import "errors"

// The errors that a lease's own methods return; see the package doclock, which
// documents them for users.
var (
	ErrLost            = errors.New("doclock: lock lost")
	ErrReleased        = errors.New("doclock: lock released")
	ErrOutcomeUnknown  = errors.New("doclock: outcome unknown")
	ErrInvalidArgument = errors.New("doclock: invalid argument")
	ErrInTransaction   = errors.New("doclock: context carries a running transaction")
)
