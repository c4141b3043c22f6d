package engine

import (
	"errors"
	"slices"
	"strings"

	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Failure describes an attempt that was not answered with an image. Unwrap
// returns the driver's error. A Failure that neither proves that nothing
// happened nor passes is worth some repeats all the same: nobody knows what
// became of the attempt.
type Failure struct {
	// Nothing happened: the server has not executed this attempt and will not.
	// Any other attempt (a lost connection, a deadline, a write-concern error, an
	// answer that proves nothing) may have been executed, or may be yet.
	Nothing bool

	// It Passes by itself: no server can be reached, a primary is being elected,
	// another client was faster. A repeat may be answered otherwise.
	Passes bool

	// It is Unproven that the server found nothing: the attempt was not executed, and
	// nobody knows whether the entry is there.
	Unproven bool

	// Unfit is the code of a refusal that is about this document: the new document
	// can't be stored. Another one may be.
	Unfit int

	// Cause names a reason that the user can remove, or a lost race.
	Cause Cause

	// Trouble of the server: more commands would make it worse.
	Trouble Trouble

	err error
}

// Cause is a failure with a name.
type Cause uint8

// The causes.
const (
	CauseOther        Cause = iota
	CauseUnsupported        // the server refuses the pipeline, $$NOW or majority reads
	CauseValidator          // a schema validator refuses the lock field
	CauseView               // the collection is a view
	CauseCapped             // the collection is capped: its documents can't grow
	CauseForeign            // the lock field is not a lock of ours
	CauseShardKey           // the filter lacks the shard key's fields
	CauseUnauthorized       // the user lacks a right, or isn't known
	CauseRace               // the document came and went, or was being updated
	CauseAway               // the driver found no server for as long as its client looks for one
)

// Trouble is a trouble of the server that passes.
type Trouble uint8

// The troubles.
const (
	NoTrouble     Trouble = iota
	Overloaded            // it has too much to do
	WriteConflict         // other writes to the document are faster
)

// Error has the server's text, which may quote the document.
func (f *Failure) Error() string { return oneline.Text(f.err.Error()) }

func (f *Failure) Unwrap() error { return f.err }

// Refused reports that a repeat would be refused as well.
func (f *Failure) Refused() bool { return f.Nothing && !f.Passes }

// Outage reports that no server takes commands at present.
func (f *Failure) Outage() bool { return f.Nothing && f.Passes && f.Cause != CauseRace }

// AsFailure returns the Failure in err's chain, or the most careful one.
func AsFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Passes: true, err: err}
}

// certain wraps an error of the library's own checks, before anything was sent.
func certain(err error) error { return &Failure{Nothing: true, err: err} }

// race is the failure of a command that another client was faster than.
func race(why string) error {
	return &Failure{Nothing: true, Passes: true, Cause: CauseRace, err: errors.New(why)}
}

// classify derives from the driver's err what is known of the command's effect.
func classify(err error) error {
	var f *Failure
	if errors.As(err, &f) { // the library's own error, already classified
		return err
	}
	var marshal mongo.MarshalError
	var server mongo.ServerError
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected), errors.As(err, &marshal):
		return certain(err)
	case errors.As(err, &server):
		return judge(err, server)
	default: // a broken connection's
		return &Failure{Passes: true, err: err}
	}
}

// overload are the labels of an overloaded server. Each one passes. Both together
// say that the command was not executed. (Other labels are of transactions and
// of commands with a transaction number, which this library doesn't send.)
var overload = []string{"SystemOverloadedError", "RetryableError"}

// judge reads a reply's codes and labels: docs/error-codes.md. A write-concern
// error comes after the write, whatever stands beside it.
func judge(err error, server mongo.ServerError) *Failure {
	f := &Failure{err: err}
	codes := server.ErrorCodes()
	lost := slices.Contains(codes, 0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) // errors of the network have code 0
	concern, afterTheWrite := writeConcernCode(err)
	if afterTheWrite {
		codes = []int{concern}
	}
	f.Passes = lost || slices.ContainsFunc(codes, interrupted.has) || slices.ContainsFunc(overload, server.HasErrorLabel)
	switch {
	case afterTheWrite, lost:
	case !slices.ContainsFunc(overload, func(label string) bool { return !server.HasErrorLabel(label) }):
		f.Nothing = true
	default:
		f.Nothing = len(codes) > 0 && !slices.ContainsFunc(codes, func(code int) bool { return !refused(code) })
	}
	switch {
	case server.HasErrorLabel(overload[0]):
		f.Trouble = Overloaded
	case slices.Contains(codes, codeOfConflict):
		f.Trouble = WriteConflict
	}
	if f.Nothing {
		f.Cause = causeOf(codes, server)
		if i := slices.IndexFunc(codes, uncomputed.has); i == 0 && f.Refused() {
			f.Unfit = codes[0]
		}
	}
	return f
}

const codeOfConflict = 112

// causeOf names the cause of a refusal. FailedToParse and TypeMismatch mean an
// unsupported server if they concern the update; they may also concern the
// caller's filter.
func causeOf(codes []int, server mongo.ServerError) Cause {
	for _, code := range codes {
		if cause, named := causes[code]; named {
			return cause
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
