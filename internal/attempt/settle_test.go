package attempt_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// A server that always answers with an error that proves nothing is not asked
// for ever.
func TestSettleBoundsAnswersThatProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		n, begun, tooLarge := 0, time.Now(), &engine.Failure{}
		unsure, err := attempt.Settle(ctx, bounds, func(context.Context) error {
			n++
			return tooLarge
		})
		if took := time.Since(begun); took < bounds.RetryLimit/3 || took > bounds.RetryLimit/3+2*time.Second || n < 5 {
			t.Errorf("%d attempts in %v", n, took)
		}
		if err != error(tooLarge) || unsure != error(tooLarge) {
			t.Errorf("unsure %v, err %v", unsure, err)
		}
	})
}

// The first answer that proves nothing may have taken most of the time: it is not the last.
func TestSettleAsksAgainAfterASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		_, err := attempt.Settle(t.Context(), bounds, func(context.Context) error {
			if n++; n > 1 {
				return nil
			}
			time.Sleep(bounds.RetryLimit / 2) //nolint:forbidigo // in a bubble
			return &engine.Failure{}
		})
		if err != nil || n != 2 {
			t.Errorf("%d attempts, %v", n, err)
		}
	})
}

// A failure that passes is repeated for as long as the bounds say, whether or not
// anything happened, and whatever was answered between. What may have happened is
// not repeated where a second execution would be another one.
func TestSettleRepeatsWhatPasses(t *testing.T) {
	lost, away, stays := &engine.Failure{Passes: true}, &engine.Failure{Nothing: true, Passes: true}, &engine.Failure{}
	for name, c := range map[string]struct {
		settle   func(context.Context, engine.Attempts, func(context.Context) error) (unsure, err error)
		failures []*engine.Failure // in turn, again and again
		took     time.Duration     // at least; 0 is each failure once
		unsure   error
	}{
		"nothing happened":                 {attempt.Settle, []*engine.Failure{away}, bounds.RetryLimit, nil},
		"lost":                             {attempt.Settle, []*engine.Failure{lost}, bounds.RetryLimit, lost},
		"no proof, now and then lost":      {attempt.Settle, []*engine.Failure{stays, stays, lost}, bounds.RetryLimit, nil},
		"refused":                          {attempt.Settle, []*engine.Failure{{Nothing: true}}, 0, nil},
		"nothing happened, any filter":     {attempt.SettleOnce, []*engine.Failure{away}, bounds.RetryLimit, nil},
		"lost, any filter":                 {attempt.SettleOnce, []*engine.Failure{lost}, 0, lost},
		"lost, and then refused":           {attempt.Settle, []*engine.Failure{lost, {Nothing: true}}, 0, lost},
		"nothing happened, and then a row": {attempt.Settle, []*engine.Failure{away, stays, stays, stays, stays}, bounds.RetryLimit, stays},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, begun := 0, time.Now()
				unsure, err := c.settle(t.Context(), bounds, func(context.Context) error {
					n++
					return c.failures[(n-1)%len(c.failures)]
				})
				took := time.Since(begun)
				if took < c.took || took > c.took+2*time.Second || c.took == 0 && n != len(c.failures) || err == nil {
					t.Errorf("%d attempts in %v, %v", n, took, err)
				}
				if c.unsure != nil && unsure != c.unsure || c.unsure == nil && len(c.failures) == 1 && unsure != nil {
					t.Errorf("unsure: %v", unsure)
				}
			})
		})
	}
}

// No attempt follows the first if the retry limit is zero.
func TestSettleWithoutRetries(t *testing.T) {
	for _, failure := range []*engine.Failure{{}, {Passes: true}, {Nothing: true, Passes: true}} {
		n := 0
		_, err := attempt.Settle(t.Context(), engine.Attempts{Timeout: time.Second}, func(context.Context) error {
			n++
			return failure
		})
		if n != 1 || err != error(failure) {
			t.Errorf("%d attempts, %v", n, err)
		}
	}
}

// A server that has trouble is asked less and less often, and last when there is time
// for an answer. The first pause after an overload error is longer than the driver's
// own. No pause is longer than the bounds allow.
func TestSettleSparesAServerInTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		failure      *engine.Failure
		longest      time.Duration // of the bounds
		shortest     time.Duration // pause
		fewest, most int           // attempts
	}{
		"lost":                {&engine.Failure{Passes: true}, 0, 5 * time.Millisecond, 30, 50},
		"overload":            {&engine.Failure{Nothing: true, Passes: true, Trouble: engine.Overloaded}, 0, 400 * time.Millisecond, 4, 9},
		"conflict":            {&engine.Failure{Passes: true, Trouble: engine.WriteConflict}, 0, 5 * time.Millisecond, 9, 16},
		"overload of a lease": {&engine.Failure{Nothing: true, Passes: true, Trouble: engine.Overloaded}, 100 * time.Millisecond, 50 * time.Millisecond, 200, 500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bounds := engine.Attempts{Timeout: time.Second, RetryLimit: 30 * time.Second, Pause: c.longest}
				var sent []time.Duration
				begun := time.Now()
				_, _ = attempt.Settle(t.Context(), bounds, func(context.Context) error {
					sent = append(sent, time.Since(begun))
					return c.failure
				})
				if len(sent) < c.fewest || len(sent) > c.most {
					t.Errorf("%d attempts: %v", len(sent), sent)
				}
				if first := sent[1]; first < c.shortest || first >= 3*c.shortest {
					t.Errorf("the first pause is %v", first)
				}
				if last := sent[len(sent)-1]; c.failure.Trouble != engine.NoTrouble && last > bounds.RetryLimit {
					t.Errorf("the last attempt is sent after %v", last)
				}
			})
		})
	}
}
