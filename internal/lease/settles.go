package lease

import (
	"cmp"
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

// settling is a settle of a mark that is under way, or has settled it.
type settling struct {
	sent engine.Reading
	done chan struct{} // closed when it has ended
	err  error         // set by then
}

// mostSettling is how many marks of a document are settled at the same time.
const mostSettling = 8

// Settle settles marks, with one attempt for each, beside each other. It returns those that a
// command may name, and the first error. An open transaction makes its mark fail, a second later,
// and no other one.
func (ls *Leases) Settle(ctx context.Context, marks []engine.Mark) (settled []uuid.UUID, err error) {
	errs := make([]error, len(marks))
	var all sync.WaitGroup
	places := make(attempt.Gate, mostSettling)
	for i, m := range marks {
		places <- struct{}{}
		all.Go(func() {
			defer places.Unlock()
			errs[i] = ls.settles.settle(ctx, m)
		})
	}
	all.Wait()
	for i, m := range marks {
		if errs[i] == nil {
			settled = append(settled, m.ID)
		}
	}
	return settled, cmp.Or(errs...)
}

// settle settles a mark, or waits for who does.
func (s *settles) settle(ctx context.Context, m engine.Mark) error {
	one, begins := s.find(m.ID)
	if !begins {
		select {
		case <-one.done:
			return one.err
		case <-ctx.Done():
			return attempt.Ended(ctx)
		}
	}
	_, one.err = attempt.Once(ctx, s.engine.Attempt(s.engine.TTL).Timeout, func(ctx context.Context) error { return s.engine.Settle(ctx, m) })
	s.mu.Lock()
	defer s.mu.Unlock()
	close(one.done)
	if one.err != nil {
		delete(s.all, m.ID)
	}
	return one.err
}

// find finds what is known of a mark, or begins to settle it. What is old is forgotten.
func (s *settles) find(id uuid.UUID) (one *settling, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(_ uuid.UUID, other *settling) bool { return attempt.IsClosed(other.done) && !s.fresh(other) })
	if one = s.all[id]; one != nil {
		return one, false
	}
	one = &settling{sent: s.engine.Clocks(), done: make(chan struct{})}
	s.all[id] = one
	return one, true
}

// fresh says that what was settled counts. The settles are locked.
func (s *settles) fresh(one *settling) bool {
	return one != nil && attempt.IsClosed(one.done) && validity{from: one.sent, ttl: settledFor}.left(s.engine.Clocks()) > 0
}

// Settled are those of the marks that still count as settled.
func (ls *Leases) Settled(marks []uuid.UUID) []uuid.UUID {
	if len(marks) == 0 { // as nearly always
		return nil
	}
	s := &ls.settles
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(marks), func(id uuid.UUID) bool { return !s.fresh(s.all[id]) })
}
