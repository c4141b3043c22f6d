package admin

import (
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// ErrNoEntry: the document has no such entry, or there is no such document. The
// entry was released, or has expired and was removed, or it was granted or resumed
// since and has another fencing token.
var ErrNoEntry = errors.New("doclock: no such entry")

// read is the error of a read.
func read(what string, err error) error {
	switch engine.AsFailure(err).Cause {
	case engine.CauseForeign:
		return fmt.Errorf("%w: %w", doclock.ErrForeignLock, err)
	case engine.CauseUnsupported:
		return fmt.Errorf("%w: %w", doclock.ErrUnsupportedServer, err)
	default:
		return fmt.Errorf("doclock: %s: %w", what, err)
	}
}

// written is the error of a command that changes something.
func written(what string, err error) error {
	if engine.AsFailure(err).Nothing {
		return read(what, err)
	}
	return fmt.Errorf("%w: %s: %w", doclock.ErrOutcomeUnknown, what, err)
}
