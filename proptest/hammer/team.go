package hammer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/history"
)

// team are clients of one worker that share their lockers, and the clock of one
// machine. They wait in one wait queue for a document, and hand its lock to
// each other. Other teams of the process do not share anything with them.
type team struct {
	*worker
	number  int
	lockers map[string]*multilock.Locker
	ahead   atomic.Int64 // of its wall clock, in nanoseconds
	audit   *audit
}

const teamSize = 8

func newTeam(w *worker, number int, rng *rand.Rand) (*team, error) {
	t := &team{worker: w, number: number, lockers: map[string]*multilock.Locker{}, audit: newAudit()}
	for _, d := range w.Documents {
		locker, err := multilock.New(w.coll, rulesOf(d.Rules), t.options(d)...)
		if err != nil {
			return nil, fmt.Errorf("rules %s: %w", d.Name, err)
		}
		t.lockers[d.ID] = locker
	}
	if w.Faults && (w.Process+number)%2 == 1 {
		t.ahead.Store(int64(time.Duration(rng.IntN(20)-10) * time.Hour))
		w.out.Fault(FaultWrongClock)
	}
	return t, nil
}

var started = time.Now()

func (t *team) options(d history.Document) []doclock.Option {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return []doclock.Option{
		doclock.ClockTolerance(ms(d.Tolerance)),
		doclock.AttemptTimeout(250 * time.Millisecond),
		doclock.Owner(fmt.Sprintf("team %d.%d", t.Process, t.number)),
		doclock.OnEvent(t.audit.hear),
		func(cfg *engine.Config) error {
			cfg.TTL, cfg.WaitTTL = ms(d.TTL), ms(d.WaitTTL) // shorter than the options allow
			cfg.Clock = func() engine.Reading {
				now := time.Now()
				return engine.Reading{Mono: now.Sub(started), Wall: now.Round(0).Add(time.Duration(t.ahead.Load()))}
			}
			return nil
		},
	}
}

func (t *team) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, locker := range t.lockers {
		if err := locker.Close(ctx); err != nil {
			return fmt.Errorf("close a locker: %w", err)
		}
	}
	if err := t.audit.check(); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}
