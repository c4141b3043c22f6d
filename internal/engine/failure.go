package engine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Failure describes an attempt that was not answered with an image, and what is
// known of the command's effect. Unwrap returns the driver's error.
type Failure struct {
	// Certain: the server has not executed the command and will not. Anything
	// else (a lost connection, a deadline, a write-concern error, an answer
	// that proves nothing) may have happened, or may yet.
	Certain bool

	// Answered: a server that can be reached gave an answer that proves
	// nothing. It may give the same answer to every repeat.
	Answered bool

	// NotSent: the command never left, because no server could be reached. It
	// is Certain too. A repeat may leave, so it is repeated for Patience.
	NotSent  bool
	Patience time.Duration

	// Again: another client was faster. The same command, sent again, may be
	// answered.
	Again bool

	// Cause names a reason that the user can remove.
	Cause Cause

	err error
}

// Cause is a failure with a name.
type Cause uint8

// The causes.
const (
	CauseOther       Cause = iota
	CauseUnsupported       // the server refuses the pipeline, $$NOW or majority reads
	CauseValidator         // a schema validator refuses the lock field
	CauseView              // the collection is a view
	CauseCapped            // the collection is capped: its documents can't grow
	CauseForeign           // the lock field is not a lock of ours
	CauseShardKey          // the filter lacks the shard key's fields
)

func (f *Failure) Error() string { return f.err.Error() }

func (f *Failure) Unwrap() error { return f.err }

// AsFailure returns the Failure in err's chain, or the most careful one.
func AsFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{err: err}
}

// certain wraps an error of the library's own checks, before anything was sent.
func certain(err error) error { return &Failure{Certain: true, err: err} }

// classify derives from the driver's err what is known of the command's effect.
func classify(err error) error {
	var f *Failure
	if errors.As(err, &f) { // the library's own error, already classified
		return err
	}
	f = &Failure{err: err}
	var marshal mongo.MarshalError
	var invalid mongo.InvalidArgumentError
	var unordered mongo.ErrMapForOrderedArgument
	if errors.Is(err, mongo.ErrClientDisconnected) || errors.As(err, &marshal) || errors.As(err, &invalid) || errors.As(err, &unordered) {
		f.Certain = true
		return f
	}
	var server mongo.ServerError
	if !errors.As(err, &server) {
		// The driver returns an internal type of marshalling error for array
		// filters, hints and comments.
		f.Certain = strings.HasPrefix(err.Error(), "cannot marshal type ")
		return f
	}
	// Errors of the network come as server errors with code 0.
	codes := server.ErrorCodes()
	lost := slices.Contains(codes, 0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err)
	concern, hasConcern := writeConcernCode(err)
	switch {
	case hasConcern: // the write stands on the primary
		f.Answered = !lost && !passes(concern)
	case server.HasErrorLabel("NoWritesPerformed"):
		f.Certain = true
	case lost, server.HasErrorLabel("RetryableWriteError"), slices.ContainsFunc(codes, passes):
	case len(codes) == 0, slices.ContainsFunc(codes, func(code int) bool { return refused(code) == nil }):
		f.Answered = true
	default:
		f.Certain, f.Cause = true, causeOf(codes, server)
	}
	return f
}

// causeOf names the cause of a refusal. FailedToParse and TypeMismatch mean an
// unsupported server if they concern the update; they may also concern the
// caller's filter.
func causeOf(codes []int, server mongo.ServerError) Cause {
	for _, code := range codes {
		if r := refused(code); r.cause != CauseOther {
			return r.cause
		}
		if (code == 9 || code == 14) && server.HasErrorMessage("update") {
			return CauseUnsupported
		}
	}
	if server.HasErrorMessage("capped") {
		return CauseCapped
	}
	return CauseOther
}

// writeConcernCode looks in both places where the driver puts a write-concern
// error: the exception, and the raw reply of a command error.
func writeConcernCode(err error) (code int, found bool) {
	var exception mongo.WriteException
	if errors.As(err, &exception) && exception.WriteConcernError != nil {
		return exception.WriteConcernError.Code, true
	}
	var command mongo.CommandError
	if !errors.As(err, &command) {
		return 0, false
	}
	if _, err := command.Raw.LookupErr("writeConcernError"); err != nil {
		return 0, false
	}
	n, _ := command.Raw.Lookup("writeConcernError", "code").AsInt64OK()
	return int(n), true
}

// noCollection recognises DocumentDB's error for a collection that does not
// exist: DocumentDB then refuses $$NOW in a projection. A server that does not
// know $$NOW gives another error, see codesUnsupported.
func noCollection(err error) bool {
	var command mongo.CommandError
	return errors.As(err, &command) && command.Code == 9 && strings.HasPrefix(command.Message, "The $$NOW operator cannot be used")
}
