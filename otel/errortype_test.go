package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestErrorTypes(t *testing.T) {
	conflict := error(&doclock.ConflictError{Tag: "write"})
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("%w: %w", doclock.ErrNotAcquired, conflict), "conflict"},
		{errors.Join(doclock.ErrNotAcquired, context.DeadlineExceeded, conflict), "timeout"},
		{errors.Join(doclock.ErrNotAcquired, context.Canceled, conflict), "canceled"},
		{errors.Join(doclock.ErrNotAcquired, doclock.ErrClosed, conflict), "closed"},
		{errors.Join(doclock.ErrOutcomeUnknown, context.DeadlineExceeded), "outcome_unknown"},
		{errors.Join(doclock.ErrNotAcquired, doclock.ErrNotFound), "not_found"},
		{doclock.ErrLost, "lost"},
		{doclock.ErrReleased, "released"},
		{doclock.ErrForeignLock, "foreign_lock"},
		{doclock.ErrUnsupportedServer, "unsupported_server"},
		{doclock.ErrInTransaction, "in_transaction"},
		{doclock.ErrInvalidArgument, "invalid_argument"},
		{fmt.Errorf("renewal: %w", mongo.CommandError{Code: 91, Message: "shutting down"}), "91"},
		{mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}, "11000"},
		{mongo.CommandError{Labels: []string{"NetworkError"}}, "network"},
		{mongo.CommandError{Code: 50, Message: "MaxTimeMSExpired"}, "timeout"},
		{fmt.Errorf("%w: waited for 10ms", doclock.ErrNotAcquired), "not_acquired"},
		{io.EOF, "_OTHER"},
	} {
		if got := errorType(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
