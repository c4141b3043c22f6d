package engine

import (
	"errors"
	"fmt"
	"log"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
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

// Late says that a command was sent, and not answered in time.
func Late(err error) bool { return mongo.IsTimeout(err) && !AsFailure(err).Nothing }

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

// judge reads a reply's codes and labels: docs/errors.md. A write-concern
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
		if f.Refused() && uncomputed.has(codes[0]) {
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
// know $$NOW gives another error: see causes.
func noCollection(err error) bool {
	var command mongo.CommandError
	return errors.As(err, &command) && command.Code == 9 && strings.HasPrefix(command.Message, "The $$NOW operator cannot be used")
}

// codes are ranges of server error codes, with both ends: see docs/errors.md. A command
// with a code of none of the four lists may have been executed, and may get the same
// answer for ever: some errors come after the write, some from a router that doesn't know
// what the shard did. This package's projections raise none.
type codes [][2]int

// unread: the command is read, and its sender's rights are checked, before any document
// is looked for.
var unread = codes{
	{2, 2}, {9, 9}, {13, 13}, {14, 14}, {18, 18}, {20, 20}, {22, 22}, {26, 26}, {59, 59}, {72, 72},
	{73, 73}, {115, 115}, {123, 123}, {148, 148}, {166, 166}, {167, 167}, {168, 168}, {224, 224},
	{238, 238}, {263, 263}, {303, 303}, {322, 324}, {371, 371}, {391, 391}, {17276, 17276}, {15942, 15999},
	{16020, 16020}, {16410, 16412}, {16866, 16869}, {16872, 16872}, {16874, 16883}, {28667, 28667}, {31002, 31002},
	{31119, 31120}, {31249, 31256}, {31310, 31310}, {31319, 31325}, {40176, 40180}, {40229, 40231}, {40272, 40272},
	{40323, 40323}, {40352, 40353}, {40324, 40324}, {40413, 40415}, {51074, 51075}, {51270, 51272}, {1257300, 1257300}, {4890500, 4890500},
}

// unrouted: a router, or a shard before it runs the command, finds no place for it.
var unrouted = codes{{61, 61}}

// uncomputed: the server computes and checks the new document inside the storage
// transaction. The error rolls it back.
var uncomputed = codes{
	{15, 15}, {28, 28}, {34, 34}, {40, 40}, {52, 57}, {66, 66}, {116, 116}, {121, 121}, {171, 171}, {201, 201},
	{241, 241}, {283, 283}, {10003, 10003}, {11000, 11000}, {16837, 16837}, {17419, 17420}, {16006, 16007},
	{16034, 16035}, {16554, 16556}, {16608, 16612}, {16702, 16702}, {17040, 17049}, {17080, 17083},
	{17124, 17124}, {17311, 17311}, {28646, 28651}, {28656, 28657}, {28664, 28664}, {28689, 28691}, {28724, 28729},
	{28756, 28766}, {34443, 34455}, {34460, 34473}, {40060, 40068}, {40075, 40081}, {40085, 40097}, {40228, 40228},
	{40386, 40400}, {51104, 51107}, {4940400, 4940401},
}

// interrupted: the server is shutting down, being elected or overloaded, or something
// interrupted this one command. It may have been executed, and the reason passes.
var interrupted = codes{
	{6, 6}, {7, 7}, {24, 24}, {46, 46}, {50, 50}, {64, 64}, {89, 89}, {90, 90}, {91, 91}, {112, 112},
	{133, 133}, {134, 134}, {189, 189}, {202, 202}, {262, 262}, {279, 279}, {281, 281}, {282, 282},
	{290, 290}, {317, 317}, {355, 355}, {365, 365}, {384, 384}, {402, 402}, {407, 407}, {433, 433},
	{449, 449}, {450, 450}, {453, 453}, {462, 462}, {9001, 9001}, {10058, 10058}, {10107, 10107},
	{11600, 11600}, {11601, 11601}, {11602, 11602}, {13435, 13435}, {13436, 13436}, {46841, 46841},
	{91331, 91331}, {10045600, 10045600},
}

// causes are the refusals whose reason has a name.
var causes = map[int]Cause{
	13: CauseUnauthorized, 18: CauseUnauthorized,
	115: CauseUnsupported, 123: CauseUnsupported, 148: CauseUnsupported, 168: CauseUnsupported, 238: CauseUnsupported, 303: CauseUnsupported, 17276: CauseUnsupported, 40324: CauseUnsupported,
	166: CauseView, 167: CauseView,
	61:    CauseShardKey,
	121:   CauseValidator,
	10003: CauseCapped,
}

func (c codes) has(code int) bool {
	return slices.ContainsFunc(c, func(r [2]int) bool { return r[0] <= code && code <= r[1] })
}

// refused says that nothing was executed and no repeat will be.
func refused(code int) bool { return unread.has(code) || unrouted.has(code) || uncomputed.has(code) }

// notSent says that a command never left: the driver selected no server, or got no
// connection to one. (After a retry the driver returns the error of the attempt before,
// which may have left.) The types have no names outside of the driver's x/ packages.
func notSent(err error) bool {
	var (
		queue   topology.WaitQueueTimeoutError
		cleared driver.RetryablePoolError
	)
	return unselected(err) != nil || errors.As(err, &queue) || errors.As(err, &cleared) || handshake(err) != nil
}

// unselected returns the driver's error that it found no server to send to, if
// it is in err's chain.
func unselected(err error) *topology.ServerSelectionError {
	var selection topology.ServerSelectionError
	if errors.As(err, &selection) {
		return &selection
	}
	return nil
}

// handshake returns the error of a connection that was not established, if it
// is in err's chain.
func handshake(err error) error {
	var connection topology.ConnectionError
	if errors.As(err, &connection) && strings.Contains(connection.Error(), "error occurred during connection handshake") {
		return connection
	}
	return nil
}

// unsent is the Failure of a command that could not be sent. It passes, unless
// each server refuses the connection, as with wrong credentials. Its text begins
// with the reason.
func unsent(err error) *Failure {
	f := &Failure{Nothing: true, Passes: true, err: err}
	var last []error // of the servers; nil is one without an error
	if selection := unselected(err); selection != nil {
		f.Cause = CauseAway
		for _, server := range selection.Desc.Servers {
			last = append(last, server.LastError)
		}
	}
	if i := slices.IndexFunc(last, func(err error) bool { return err != nil }); i >= 0 {
		f.err = fmt.Errorf("%w: %w", last[i], err)
	}
	if c := handshake(err); c != nil {
		last = []error{c}
	}
	why := ""
	for _, err := range last {
		switch code := replied(err); {
		case code == 0, interrupted.has(code):
			return f
		case slices.Contains(authentication, code):
			why = "authentication failed"
		default:
			why = "the server refuses the connection"
		}
	}
	if why != "" {
		f.Passes, f.err = false, fmt.Errorf("%s: %w", why, f.err)
	}
	return f
}

// authentication are the codes of a login that fails: AuthenticationFailed,
// MechanismUnavailable, AtlasError.
var authentication = []int{18, 334, 8000}

// replied is the code of a server's reply in err's chain, or 0.
func replied(err error) int {
	var (
		reply  mongo.CommandError
		direct driver.Error
	)
	switch {
	case errors.As(err, &reply):
		return int(reply.Code)
	case errors.As(err, &direct):
		return int(direct.Code)
	default:
		return 0
	}
}

// Panic is the failure of a command during which code of the caller's has panicked, as the
// command monitor of his client: in a goroutine of the library he can't recover from it,
// and it would end his process. The outcome is unknown. The panic is raised again, once,
// where the caller waits for the command.
type Panic struct {
	value  any
	raised atomic.Bool
}

func (p *Panic) Error() string { return fmt.Sprintf("panic in the client's own monitor: %v", p.value) }

// PanicIn is the panic in an error, or nil.
func PanicIn(err error) error {
	if p := (*Panic)(nil); errors.As(err, &p) {
		return p
	}
	return nil
}

// Raise panics with the value of a panic that is in the error, in the caller's goroutine,
// and else returns the error. A panic that was raised before is an error like others.
func Raise(err error) error {
	if p := (*Panic)(nil); errors.As(err, &p) && !p.raised.Swap(true) {
		panic(p.value)
	}
	return err
}

// guard calls the driver. It logs a panic with its stack, which is lost where the panic is
// raised again.
func guard(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			log.Printf("doclock: panic in the client's own monitor: %v\n%s", value, debug.Stack())
			err = &Failure{err: &Panic{value: value}}
		}
	}()
	return call()
}
