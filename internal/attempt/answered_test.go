package attempt_test

import (
	"context"
	"errors"
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
		n, begun, tooLarge := 0, time.Now(), &engine.Failure{Answered: true}
		unsure, err := attempt.Settle(ctx, time.Second, func(context.Context) error {
			n++
			return tooLarge
		})
		if took := time.Since(begun); took > time.Minute || n < 5 || n > 100 {
			t.Errorf("%d attempts in %v", n, took)
		}
		if err != error(tooLarge) || unsure != error(tooLarge) {
			t.Errorf("unsure %v, err %v", unsure, err)
		}
	})
}

// Only answers in a row count: a server that is being restarted may be asked
// for longer.
func TestSettleGoesOnWhereAnswersAreLostBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, troubled := errors.New("connection lost"), &engine.Failure{Answered: true}
		begun := time.Now()
		n := 0
		unsure, err := attempt.Settle(t.Context(), time.Second, func(context.Context) error {
			n++
			switch {
			case time.Since(begun) > time.Minute:
				return nil
			case n%5 == 0:
				return lost
			default:
				return troubled
			}
		})
		if err != nil || unsure != lost {
			t.Errorf("after %d attempts and %v: unsure %v, err %v", n, time.Since(begun), unsure, err)
		}
	})
}

// A lost attempt may still be on its way, whatever a later attempt is answered.
func TestSettleRemembersTheLostAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, troubled := errors.New("connection lost"), &engine.Failure{Answered: true}
		n := 0
		unsure, err := attempt.Settle(t.Context(), time.Second, func(context.Context) error {
			n++
			if n == 1 {
				return lost
			}
			return troubled
		})
		if unsure != lost || err != error(troubled) {
			t.Errorf("unsure %v, err %v", unsure, err)
		}
	})
}
