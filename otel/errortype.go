package otel

import (
	"context"
	"errors"
	"strconv"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// errorTypes are the values of error.type for the errors that have a name. The
// first that fits counts: an acquire whose context ended has the last conflict in
// its error too.
var errorTypes = []struct {
	err  error
	name string
}{
	{doclock.ErrOutcomeUnknown, "outcome_unknown"}, // joined with the end of the caller's context
	{context.Canceled, "canceled"},
	{doclock.ErrClosed, "closed"},
	{context.DeadlineExceeded, "timeout"},
	{doclock.ErrConflict, "conflict"},
	{doclock.ErrNotFound, "not_found"},
	{doclock.ErrLost, "lost"},
	{doclock.ErrReleased, "released"},
	{doclock.ErrForeignLock, "foreign_lock"},
	{doclock.ErrUnsupportedServer, "unsupported_server"},
	{doclock.ErrInTransaction, "in_transaction"},
	{doclock.ErrInvalidArgument, "invalid_argument"},
}

// errorType is the value of error.type: one of a few texts, or the code of a
// server's error, as OpenTelemetry's conventions for databases have it. It is
// empty for nil.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			return t.name
		}
	}
	var answer mongo.ServerError
	switch {
	case mongo.IsTimeout(err):
		return "timeout"
	case mongo.IsNetworkError(err):
		return "network"
	case errors.As(err, &answer) && len(answer.ErrorCodes()) > 0:
		return strconv.Itoa(answer.ErrorCodes()[0])
	case errors.Is(err, doclock.ErrNotAcquired): // as when MaxWait is over before the first answer
		return "not_acquired"
	default:
		return "_OTHER" // OpenTelemetry's word for an error of no known type
	}
}
