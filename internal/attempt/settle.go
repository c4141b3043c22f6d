package attempt

import (
	"cmp"
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

	// The server has trouble. After an overload error the driver has sent the command
	// three times, with pauses of up to 200 and 400 ms. The library's go on from there,
	// up to the driver's longest one.
	overloadPause    = 800 * time.Millisecond
	longTroublePause = 10 * time.Second
)

// Settle sends a command until an attempt is answered, ctx ends, the server
// refuses the command, or the attempts' RetryLimit is over. If each answer proves
// nothing and no reason passes ([engine.Failure]), a third of that is enough:
// the server may answer so for ever. Each attempt runs under its own timeout, on a
// context that carries ctx's values but neither its end nor its session.
//
// unsure is the error of the last attempt of unknown outcome, or nil. If it is
// set, the answer to a later attempt may show the effect of an earlier one, and
// the refusal of a later attempt says nothing about an earlier one. err is nil
// if an attempt was answered.
func Settle(ctx context.Context, bounds engine.Attempts, send func(context.Context) error) (unsure, err error) {
	return repeat(ctx, bounds, never, func() (unsure, err error) { return Once(ctx, bounds.Timeout, send) })
}

// SettleOnce is Settle for a command that must not be executed twice: it ends with
// the first attempt of which it isn't certain that nothing happened.
func SettleOnce(ctx context.Context, bounds engine.Attempts, send func(context.Context) error) (unsure, err error) {
	return repeat(ctx, bounds, inDoubt, func() (unsure, err error) { return Once(ctx, bounds.Timeout, send) })
}

// Read is Settle for a read that nobody wants any more once ctx has ended, or the driver
// has found no server for as long as its client looks for one. An attempt gets a third of
// the RetryLimit, so that the next one comes before that is over.
func Read(ctx context.Context, bounds engine.Attempts, send func(context.Context) error) error {
	return Begin(ctx, bounds, func() error {
		attempt, cancel := context.WithTimeout(ctx, bounds.RetryLimit/3)
		defer cancel()
		return send(attempt)
	})
}

// Begin is Read for a read of many documents: an attempt takes as long as ctx lasts, and
// the caller reads on under ctx.
func Begin(ctx context.Context, bounds engine.Attempts, send func() error) error {
	_, err := repeat(ctx, bounds, away, func() (unsure, err error) { return nil, send() })
	return err
}

// These say which failures end the repeats, besides those that a repeat can't change.
func never(*engine.Failure) bool     { return false }
func inDoubt(f *engine.Failure) bool { return !f.Nothing }
func away(f *engine.Failure) bool    { return f.Cause == engine.CauseAway }

// repeat calls send until it is answered, ctx ends, the bounds are over, or a failure ends it.
func repeat(ctx context.Context, bounds engine.Attempts, over func(*engine.Failure) bool, send func() (unsure, err error)) (unsure, err error) {
	begun := time.Now()
	var passed time.Time // no failure since then passes
	for pause := firstPause; ; pause *= 2 {
		maybe, err := send()
		if err == nil {
			return unsure, nil
		}
		if maybe != nil {
			unsure = maybe
		}
		failure := engine.AsFailure(err)
		if failure.Passes || passed.IsZero() { // the first one may have taken long
			passed = time.Now()
		}
		pause = grown(pause, failure, bounds)
		jittered := pause/2 + rand.N(pause)
		switch {
		case failure.Refused(), over(failure), engine.PanicIn(err) != nil,
			time.Since(begun) >= bounds.RetryLimit, time.Since(passed) >= bounds.RetryLimit/3,
			failure.Trouble != engine.NoTrouble && time.Since(begun)+jittered > bounds.RetryLimit, // a long pause, for nothing
			!Sleep(ctx, jittered):
			return unsure, err
		}
	}
}

// grown is the pause after a failure, within its bounds.
func grown(pause time.Duration, failure *engine.Failure, bounds engine.Attempts) time.Duration {
	if failure.Trouble == engine.NoTrouble {
		return min(pause, longPause)
	}
	if failure.Trouble == engine.Overloaded {
		pause = max(pause, overloadPause)
	}
	return min(pause, cmp.Or(bounds.Pause, longTroublePause))
}

// Once sends one attempt.
func Once(ctx context.Context, timeout time.Duration, send func(context.Context) error) (unsure, err error) {
	detached, cancel := context.WithTimeout(Detached(ctx), timeout)
	defer cancel()
	if err = send(detached); err != nil && !engine.AsFailure(err).Nothing {
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
