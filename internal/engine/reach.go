package engine

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// contact records whether the last command could reach the server. If it could
// not, the next command first asks the driver for a server. So a command that
// can't be sent is known not to have left.
type contact struct{ known atomic.Bool }

// unsent is the Failure of a command that could not be sent.
func (e *Engine) unsent(err error) *Failure {
	return &Failure{Certain: true, NotSent: true, Patience: cmp.Or(e.Patience, DefaultPatience), err: err}
}

// failed classifies a command's error, and updates contact by it.
func (e *Engine) failed(err error) error {
	left := !notSent(err)
	if !left || mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		e.contact.known.Store(false)
	}
	if !left {
		return e.unsent(err)
	}
	return classify(err)
}

// findOneAndUpdate sends the command once a server can be reached. It also
// returns the clocks from before the send (rule 4).
func (e *Engine) findOneAndUpdate(ctx context.Context, filter, update any, opts *options.FindOneAndUpdateOptionsBuilder) (*mongo.SingleResult, Reading) {
	sent, err := e.begin(ctx)
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil), sent
	}
	return e.coll.FindOneAndUpdate(ctx, filter, update, opts), sent
}

// begin makes sure that a command can be sent, and reads the clocks before the
// send. Every validity is counted from that reading (rule 4).
func (e *Engine) begin(ctx context.Context) (sent Reading, err error) {
	err = e.reach(ctx)
	return e.Clocks(), err
}

// reach waits until the driver knows a server to send to. It returns a Failure
// if there is none when ctx ends, or if the caller has revoked the command. It
// sends nothing.
func (e *Engine) reach(ctx context.Context) error {
	for pause := firstLook; !e.contact.known.Load(); pause = min(2*pause, longLook) {
		err := e.Unreachable()
		if err == nil {
			e.contact.known.Store(true)
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return e.unsent(err)
		}
	}
	return BeginSending(ctx)
}

// Pauses between two checks of the driver's servers.
const (
	firstLook = time.Millisecond
	longLook  = 50 * time.Millisecond
)

// Unreachable returns the driver's reason why no command can be sent at
// present: the addresses, and the error of each. It is nil if no reason is
// known.
func (e *Engine) Unreachable() error {
	if e.contact.known.Load() {
		return nil
	}
	// With an ended context the driver checks its servers, and neither waits
	// nor sends.
	ended, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	err := e.coll.Database().Client().Ping(ended, readpref.Primary())
	if unselected(err) {
		return err
	}
	return nil
}

// Sending tells a caller that doesn't wait for a command's answer whether the
// command was sent.
type Sending struct {
	state atomic.Int32

	Each func() // is called before each command, repeats included; or nil
}

const (
	waiting int32 = iota
	sent
	revoked
)

type sendingKey struct{}

// ErrRevoked is the error of a command that was not sent, because its caller has
// revoked it.
var ErrRevoked = errors.New("the caller has left before the command was sent")

// WithSending returns a context whose commands record in s that they were sent. A
// nil s forgets an earlier one.
func WithSending(ctx context.Context, s *Sending) context.Context {
	return context.WithValue(ctx, sendingKey{}, s)
}

// BeginSending notes that a command is sent now: all [Commands] call it right
// before. It returns a Failure where the caller has revoked the command.
func BeginSending(ctx context.Context) error {
	s, _ := ctx.Value(sendingKey{}).(*Sending)
	switch {
	case s == nil:
		return nil
	case !s.begin():
		return &Failure{Certain: true, err: ErrRevoked}
	case s.Each != nil:
		s.Each()
	}
	return nil
}

func (s *Sending) begin() bool {
	return s.state.CompareAndSwap(waiting, sent) || s.state.Load() == sent
}

// Revoke reports that nothing was sent, and makes sure that nothing will be.
func (s *Sending) Revoke() bool {
	return s.state.CompareAndSwap(waiting, revoked) || s.state.Load() == revoked
}

// The driver's error types for a command that never left are in one of its x/
// packages, so they are known by name. The driver selected no server, or got no
// connection to one. (After a retry the driver returns the error of the attempt
// before, which may have left.)
const driversTopology = "go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

func notSent(err error) bool {
	return in(err, func(name string, err error) bool {
		switch name {
		case "ServerSelectionError", "WaitQueueTimeoutError", "poolClearedError":
			return true
		case "ConnectionError":
			return strings.Contains(err.Error(), "error occurred during connection handshake")
		default:
			return false
		}
	})
}

// unselected reports whether the driver found no server to send to.
func unselected(err error) bool {
	return in(err, func(name string, _ error) bool { return name == "ServerSelectionError" })
}

// in looks for an error of the driver in the chain.
func in(err error, wanted func(name string, err error) bool) bool {
	for err != nil {
		if t := reflect.TypeOf(err); t.PkgPath() == driversTopology && wanted(t.Name(), err) {
			return true
		}
		unwrapper, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = unwrapper.Unwrap()
	}
	return false
}
