package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// contact records whether the last command could reach the server. If it could
// not, the next command first asks the driver for a server. So a command that
// can't be sent is known not to have left.
type contact struct {
	known atomic.Bool
}

// failed classifies the error of a command, and updates contact by it.
func (e *Engine) failed(err error) error {
	if err == nil {
		return nil
	}
	left := !notSent(err)
	if !left || mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		e.contact.known.Store(false)
	}
	if !left {
		return unsent(err)
	}
	return classify(err)
}

// begin makes sure that a command can be sent, and reads the clocks before the
// send. Every validity is counted from that reading (rule 4).
func (e *Engine) begin(ctx context.Context) (sent Reading, err error) {
	if err = e.Reach(ctx); err == nil {
		err = BeginSending(ctx)
	}
	return e.Clocks(), err
}

// Reach waits until the driver knows a server to send to. It returns a Failure
// if there is none when ctx ends, if the servers refuse the client's credentials,
// or if the caller has revoked the command. It sends nothing.
func (e *Engine) Reach(ctx context.Context) error {
	for pause := firstLook; !e.contact.known.Load(); pause = min(2*pause, longLook) {
		err := e.unreachable()
		if err == nil {
			e.contact.known.Store(true)
			break
		}
		if !err.Passes {
			return err
		}
		if isRevoked(ctx) {
			return certain(ErrRevoked)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// Pauses between two checks of the driver's servers.
const (
	firstLook = time.Millisecond
	longLook  = 50 * time.Millisecond
)

// Unreachable returns the reason why no command can be sent at present: a
// server's last error, and then the driver's, with the addresses and the error of
// each. It is nil if no reason is known.
func (e *Engine) Unreachable() error {
	if f := e.unreachable(); f != nil {
		return f
	}
	return nil
}

func (e *Engine) unreachable() *Failure {
	if e.contact.known.Load() {
		return nil
	}
	// With an ended context the driver neither waits nor sends. If it knows no server, it
	// checks them, or notices the end before that: it draws which.
	ended, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	var err error
	for range draws {
		err = guard(func() error { return e.coll.Database().Client().Ping(ended, readpref.Primary()) })
		if unselected(err) == nil {
			return nil
		}
	}
	return unsent(err)
}

// draws is how often one look asks the driver, of which one in two has it check its
// servers.
const draws = 10

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
		return certain(ErrRevoked)
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

// Revoke is that of the context's commands.
func Revoke(ctx context.Context) bool {
	s, _ := ctx.Value(sendingKey{}).(*Sending)
	return s != nil && s.Revoke()
}

func isRevoked(ctx context.Context) bool {
	s, _ := ctx.Value(sendingKey{}).(*Sending)
	return s != nil && s.state.Load() == revoked
}

// InTransaction reports whether ctx carries a running transaction. A command on
// ctx would join the transaction, and a detached one could wait for it.
func InTransaction(ctx context.Context) bool {
	session := mongo.SessionFromContext(ctx)
	return session != nil && session.TransactionRunning()
}
