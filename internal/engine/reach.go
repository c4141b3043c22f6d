package engine

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// contact is what an Engine knows of the way to its server: whether the last
// command had one. While none is known a command asks the driver first, so that
// one that can't be sent is known not to be.
type contact struct{ known atomic.Bool }

// unsent is the failure of a command that could not be sent.
func (e *Engine) unsent(err error) *Failure {
	return &Failure{Certain: true, NotSent: true, Patience: cmp.Or(e.Patience, DefaultPatience), err: err}
}

// failed classifies how a command failed, and takes in what that says of the
// way to the server.
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

// findOneAndUpdate is the driver's, for a command that can be sent, and the
// clocks before it was sent (rule 4).
func (e *Engine) findOneAndUpdate(ctx context.Context, filter, update any, opts *options.FindOneAndUpdateOptionsBuilder) (*mongo.SingleResult, Reading) {
	sent, err := e.begin(ctx)
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil), sent
	}
	return e.coll.FindOneAndUpdate(ctx, filter, update, opts), sent
}

// begin makes sure that a command can be sent, and reads the clocks before it
// is: the anchor of every validity (rule 4).
func (e *Engine) begin(ctx context.Context) (sent Reading, err error) {
	err = e.reach(ctx)
	return e.Clocks(), err
}

// reach waits until the driver has a server to send to, and returns a Failure
// where it has none when ctx ends. Nothing is sent. The caller may have revoked
// what is to be sent.
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

// Pauses between two looks at what the driver knows of its servers.
const (
	firstLook = time.Millisecond
	longLook  = 50 * time.Millisecond
)

// Unreachable is the driver's reason why nothing can be sent at present: the
// addresses, and why each can't be reached. It is nil where nothing is known
// against it.
func (e *Engine) Unreachable() error {
	if e.contact.known.Load() {
		return nil
	}
	// A context that has ended lets the driver look at what it knows, and
	// neither wait nor send.
	ended, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	err := e.coll.Database().Client().Ping(ended, readpref.Primary())
	if unselected(err) {
		return err
	}
	return nil
}

// Sending tells a caller who doesn't wait for a command's answer whether the
// command was sent.
type Sending struct{ state atomic.Int32 }

const (
	waiting int32 = iota
	sent
	revoked
)

type sendingKey struct{}

// WithSending has the commands that are sent with the context noted in s.
func WithSending(ctx context.Context, s *Sending) context.Context {
	return context.WithValue(ctx, sendingKey{}, s)
}

// BeginSending notes that a command is sent now: all [Commands] call it right
// before. It returns a Failure where the caller has revoked the command.
func BeginSending(ctx context.Context) error {
	if s, ok := ctx.Value(sendingKey{}).(*Sending); ok && !s.begin() {
		return &Failure{Certain: true, err: context.Canceled}
	}
	return nil
}

func (s *Sending) begin() bool {
	return s.state.CompareAndSwap(waiting, sent) || s.state.Load() == sent
}

// Revoke reports that nothing was sent, and that nothing will be.
func (s *Sending) Revoke() bool {
	return s.state.CompareAndSwap(waiting, revoked) || s.state.Load() == revoked
}

// The driver's types for a command that never left are in a package of its
// own, so they are known by name: no server was selected, or no connection to
// it was got. (After a retry the driver returns the error of the attempt before,
// which may have left.)
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

// unselected says that the driver knows no server that it could send to.
func unselected(err error) bool {
	return in(err, func(name string, _ error) bool { return name == "ServerSelectionError" })
}

// in looks for an error of the driver's in the chain.
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
