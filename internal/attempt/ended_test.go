package attempt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// The error of a context that ended has the caller's cause, but not what another
// call of the library's has returned.
func TestEnded(t *testing.T) {
	mine := errors.New("the user has left")
	failure := engine.AsFailure(errors.New("no server"))
	for name, c := range map[string]struct {
		cause    error
		is, isNo []error
		text     string
	}{
		"no cause":       {nil, nil, nil, "context canceled"},
		"canceled":       {context.Canceled, nil, nil, "context canceled"},
		"the caller's":   {mine, []error{mine}, nil, "context canceled; the user has left"},
		"a conflict":     {&doclock.ConflictError{Tag: "write"}, nil, []error{doclock.ErrConflict}, ""},
		"a refusal":      {fmt.Errorf("step 2: %w: %w", doclock.ErrNotAcquired, context.Canceled), nil, []error{doclock.ErrNotAcquired}, ""},
		"a lost lease":   {doclock.ErrLost, nil, []error{doclock.ErrLost}, "context canceled; doclock: lock lost"},
		"a failure":      {fmt.Errorf("doclock: renew: %w", failure), nil, []error{failure}, ""},
		"bad input":      {doclock.ErrInvalidArgument, nil, []error{doclock.ErrInvalidArgument}, ""},
		"not known":      {doclock.ErrOutcomeUnknown, nil, []error{doclock.ErrOutcomeUnknown}, ""},
		"no document":    {doclock.ErrNotFound, nil, []error{doclock.ErrNotFound}, ""},
		"released":       {doclock.ErrReleased, nil, []error{doclock.ErrReleased}, ""},
		"closed":         {doclock.ErrClosed, nil, []error{doclock.ErrClosed}, ""},
		"in transaction": {doclock.ErrInTransaction, nil, []error{doclock.ErrInTransaction}, ""},
		"foreign":        {doclock.ErrForeignLock, nil, []error{doclock.ErrForeignLock}, ""},
		"unsupported":    {doclock.ErrUnsupportedServer, nil, []error{doclock.ErrUnsupportedServer}, ""},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(c.cause)
		err := attempt.Ended(ctx)
		for _, is := range append(c.is, context.Canceled) {
			if !errors.Is(err, is) {
				t.Errorf("%s: %v is no %v", name, err, is)
			}
		}
		for _, isNo := range c.isNo {
			if errors.Is(err, isNo) {
				t.Errorf("%s: %v is a %v", name, err, isNo)
			}
		}
		if c.text != "" && err.Error() != c.text {
			t.Errorf("%s: the text is %q", name, err)
		}
		if !attempt.EndedBy(ctx, fmt.Errorf("doclock: not acquired: %w", err)) || attempt.EndedBy(ctx, mine) || attempt.EndedBy(t.Context(), err) {
			t.Errorf("%s: EndedBy", name)
		}
	}
}
