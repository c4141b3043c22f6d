package engine

import (
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Failure is an attempt that was not answered with an image. It says what is
// known of the command's effect; Unwrap gives the driver's error.
type Failure struct {
	// Certain: the server has not executed the command and will not. Anything
	// else (a lost connection, a deadline, a write-concern error) may have
	// happened, or may yet.
	Certain bool

	// Again: somebody was faster; the same command, sent again, may be
	// answered.
	Again bool

	// Cause names the reasons that a user can do something about.
	Cause Cause

	err error
}

// Cause is a failure with a name.
type Cause uint8

// The causes that are told apart.
const (
	CauseOther       Cause = iota
	CauseUnsupported       // the server refuses the pipeline or $$NOW
	CauseValidator         // a schema validator refuses the lock field
	CauseView              // the collection is a view
	CauseCapped            // the collection is capped: its documents can't grow
	CauseForeign           // the lock field is not a lock of ours
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

// certain wraps an error of the library's own checks: nothing was sent.
func certain(err error) error { return &Failure{Certain: true, err: err} }

// Codes of server errors, by what they mean for us.
var (
	// The command may have been executed: a deadline inside the server, a
	// retry whose history is gone, a retried findAndModify whose image is.
	// InternalError is what FerretDB says when its own connection to the
	// database behind it breaks, in the middle of a command or not.
	codesMaybeExecuted = []int{1, 50, 217, 40611, 40612, 40613}

	// The member stepped down or shut down. With retryable writes these carry
	// the label RetryableWriteError; without, they mean the same.
	codesElection = []int{6, 7, 64, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436}

	// The server does not know a piece of the library's own pipelines.
	codesUnsupported = []int{115, 168, 238, 303, 17276, 40324}

	// FailedToParse and TypeMismatch are that too where they speak of the
	// update; they may as well speak of the caller's filter.
	codesRefusedUpdate = []int{9, 14}
)

const (
	codeValidation = 121
	codeView       = 166
)

// classify is the table of the driver's errors.
func classify(err error) error {
	var f *Failure
	if errors.As(err, &f) { // one of the library's own, that says it all
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
	// A write-concern error: the write stands on the primary.
	var server mongo.ServerError
	if !errors.As(err, &server) {
		// Of array filters, hints and comments the driver lets an internal
		// type of a marshalling error out.
		f.Certain = strings.HasPrefix(err.Error(), "cannot marshal type ")
		return f
	}
	if withWriteConcernError(err) {
		return f
	}
	if server.HasErrorLabel("NoWritesPerformed") {
		f.Certain = true
		return f
	}
	codes := server.ErrorCodes()
	has := func(set ...int) bool {
		return slices.ContainsFunc(codes, func(c int) bool { return slices.Contains(set, c) })
	}
	// Errors of the network come as server errors with code 0.
	if has(0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||
		server.HasErrorLabel("RetryableWriteError") || has(codesMaybeExecuted...) || has(codesElection...) {
		return f
	}
	f.Certain = true
	switch {
	case has(codesUnsupported...), has(codesRefusedUpdate...) && strings.Contains(err.Error(), "update"):
		f.Cause = CauseUnsupported
	case has(codeValidation):
		f.Cause = CauseValidator
	case has(codeView):
		f.Cause = CauseView
	case server.HasErrorMessage("capped"):
		f.Cause = CauseCapped
	}
	return f
}

// withWriteConcernError looks in both places where the driver leaves one: the
// exception, and the raw reply of a command error.
func withWriteConcernError(err error) bool {
	var exception mongo.WriteException
	if errors.As(err, &exception) {
		return exception.WriteConcernError != nil
	}
	var command mongo.CommandError
	if errors.As(err, &command) {
		return has(command.Raw, "writeConcernError")
	}
	return false
}

func has(doc bson.Raw, key string) bool {
	_, err := doc.LookupErr(key)
	return err == nil
}

// noCollection recognises how DocumentDB says that a collection, and so any
// document in it, does not exist: it then refuses $$NOW in a projection. A
// server that does not know $$NOW says something else, see codesUnsupported.
func noCollection(err error) bool {
	var command mongo.CommandError
	return errors.As(err, &command) && command.Code == 9 && strings.HasPrefix(command.Message, "The $$NOW operator cannot be used")
}
