package attempt

import (
	"errors"
	"slices"

	"github.com/doclock/doclock/internal/engine"
)

// The errors that callers test for. The package doclock documents them for users.
var (
	ErrNotAcquired       = errors.New("doclock: not acquired")
	ErrNotFound          = errors.New("doclock: no such document")
	ErrConflict          = errors.New("doclock: conflict")
	ErrLost              = errors.New("doclock: lock lost")
	ErrReleased          = errors.New("doclock: lock released")
	ErrClosed            = errors.New("doclock: locker closed")
	ErrInvalidArgument   = errors.New("doclock: invalid argument")
	ErrInTransaction     = errors.New("doclock: context carries a running transaction")
	ErrForeignLock       = errors.New("doclock: foreign lock field")
	ErrOutcomeUnknown    = errors.New("doclock: outcome unknown")
	ErrUnsupportedServer = errors.New("doclock: unsupported server")
)

var verdicts = []error{
	ErrNotAcquired, ErrNotFound, ErrConflict, ErrLost, ErrReleased, ErrClosed,
	ErrInvalidArgument, ErrInTransaction, ErrForeignLock, ErrOutcomeUnknown, ErrUnsupportedServer,
}

// isOurs reports that err says how a call of the library ended.
func isOurs(err error) bool {
	return errors.As(err, new(*engine.Failure)) ||
		slices.ContainsFunc(verdicts, func(verdict error) bool { return errors.Is(err, verdict) })
}
