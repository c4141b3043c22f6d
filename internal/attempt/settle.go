package attempt

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Pauses between the attempts of one command.
const (
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// longestAnswered bounds the repeats of a command that a living server always
// answers with an error that proves nothing: it may answer so for ever.
const longestAnswered = 10 * time.Second

// mostRaces bounds the repeats after lost races. More losses than that have
// another reason than a race.
const mostRaces = 4

// Settle sends a command until an attempt is answered, ctx ends, or the server
// certainly refuses the command. It also stops if the server has for a while
// answered only with errors that prove nothing, or can't be reached for as long
// as [engine.Failure] allows. Each attempt runs under its own timeout, on a
// context that carries ctx's values but neither its end nor its session.
//
// unsure is the error of the last attempt of unknown outcome, or nil. If it is
// set, the answer to a later attempt may show the effect of an earlier one, and
// the refusal of a later attempt says nothing about an earlier one. err is nil
// if an attempt was answered.
//
// If unsure is Answered, every attempt of unknown outcome was: none of them is
// still on its way.
func Settle(ctx context.Context, timeout time.Duration, send func(context.Context) error) (unsure, err error) {
	return settle(ctx, timeout, send, false)
}

// SettleOnce is Settle for a command that can't be repeated: it ends with the
// first attempt that may have been sent.
func SettleOnce(ctx context.Context, timeout time.Duration, send func(context.Context) error) (unsure, err error) {
	return settle(ctx, timeout, send, true)
}

func settle(ctx context.Context, timeout time.Duration, send func(context.Context) error, once bool) (unsure, err error) {
	begun := time.Now()
	races := 0
	var answered time.Time // the first of the answers in a row that prove nothing
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		maybe, err := Once(ctx, timeout, send)
		if maybe != nil && (unsure == nil || !engine.AsFailure(maybe).Answered) {
			unsure = maybe
		}
		if err == nil {
			return unsure, nil
		}
		failure := engine.AsFailure(err)
		switch {
		case !failure.Answered:
			answered = time.Time{}
		case answered.IsZero():
			answered = time.Now()
		case time.Since(answered) > longestAnswered:
			return unsure, err
		}
		if failure.Again {
			races++
		}
		switch {
		case failure.NotSent && time.Since(begun) < failure.Patience:
		case once, maybe == nil && (!failure.Again || races > mostRaces):
			return unsure, err
		}
		if !Sleep(ctx, pause/2+rand.N(pause)) {
			return unsure, err
		}
	}
}

// Once sends one attempt.
func Once(ctx context.Context, timeout time.Duration, send func(context.Context) error) (unsure, err error) {
	detached, cancel := context.WithTimeout(Detached(ctx), timeout)
	defer cancel()
	if err = send(detached); err != nil && !engine.AsFailure(err).Certain {
		unsure = err
	}
	return unsure, err
}

// Detached keeps ctx's values, but neither its end nor the driver's session: a
// command that outlives its caller must not use the session at the same time as
// the caller.
func Detached(ctx context.Context) context.Context {
	ctx = context.WithoutCancel(ctx)
	if mongo.SessionFromContext(ctx) == nil {
		return ctx
	}
	return mongo.NewSessionContext(ctx, nil)
}

// InTransaction reports whether ctx carries a running transaction. A command on
// ctx would join the transaction, and a detached one could wait for it.
func InTransaction(ctx context.Context) bool {
	session := mongo.SessionFromContext(ctx)
	return session != nil && session.TransactionRunning()
}

// Sleep waits for d and reports whether ctx is still alive.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
