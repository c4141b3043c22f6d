package lease

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// settledFor is for how long a mark counts as settled. A day after its last use a fence is
// removed, and so is the word that it was revoked.
const settledFor = time.Hour

// settles are the marks that a Locker has settled, or settles now. One settle is under way for
// each: many at once would keep the transaction from its commit.
type settles struct {
	engine *engine.Engine

	mu  sync.Mutex
	all map[uuid.UUID]*settling
}

// settling is a mark, and when it was settled.
type settling struct {
	busy   gate
	sent   engine.Reading // of the settle; zero before it was answered
	begun  int            // how many were
	failed error          // the last one
}

// Settle settles marks, with one attempt for each, up to the first that fails. It returns those
// that a command may name. An open transaction makes it fail, a second later.
func (ls *Leases) Settle(ctx context.Context, marks []engine.Mark) (settled []uuid.UUID, err error) {
	for _, m := range marks {
		if err := ls.settles.settle(ctx, m); err != nil {
			return settled, err
		}
		settled = append(settled, m.ID)
	}
	return settled, nil
}

func (s *settles) settle(ctx context.Context, m engine.Mark) error {
	one := s.find(m.ID)
	begun, _ := s.last(one)
	if err := one.busy.lock(ctx); err != nil {
		return err
	}
	defer one.busy.unlock()
	if s.isFresh(one) {
		return nil
	}
	if now, failed := s.last(one); now > begun && failed != nil { // begun after this call: it counts for all who have waited
		return failed
	}
	s.mu.Lock()
	one.begun++
	s.mu.Unlock()
	sent := s.engine.Clocks()
	_, err := attempt.Once(ctx, s.engine.Attempt(s.engine.TTL).Timeout, func(ctx context.Context) error { return s.engine.Settle(ctx, m) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.failed = err; err == nil {
		one.sent = sent
	}
	return err
}

// last is how many settles have begun, and the error of the last one.
func (s *settles) last(one *settling) (begun int, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.begun, one.failed
}

// find finds what is known of a mark, or begins it. What is old is forgotten.
func (s *settles) find(id uuid.UUID) *settling {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(_ uuid.UUID, other *settling) bool { return !other.busy.isLocked() && !s.fresh(other) })
	if s.all == nil {
		s.all = map[uuid.UUID]*settling{}
	}
	one := s.all[id]
	if one == nil {
		one = &settling{busy: make(gate, 1)}
		s.all[id] = one
	}
	return one
}

func (s *settles) isFresh(one *settling) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh(one)
}

// fresh says that what was settled counts. The settles are locked.
func (s *settles) fresh(one *settling) bool {
	v := validity{from: one.sent, ttl: settledFor}
	return !one.sent.Wall.IsZero() && v.left(s.engine.Clocks()) > 0
}

// Settled are those of the marks that still count as settled.
func (ls *Leases) Settled(marks []uuid.UUID) []uuid.UUID {
	if len(marks) == 0 { // as nearly always
		return nil
	}
	s := &ls.settles
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(marks), func(id uuid.UUID) bool { return s.all[id] == nil || !s.fresh(s.all[id]) })
}
