package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// Hold is a lock that was granted: an entry that stands in a document. It knows
// its holders, for how long it is valid, and how it ended. An exclusive lock is
// a hold of one; an entry that goroutines of one process share is a hold of
// many.
type Hold struct {
	*locker
	grant      engine.Grant
	shared     bool         // others may join
	unanswered []Unanswered // attempts of the acquire

	renewing gate // one renewal at a time
	writing  gate // one guarded write at a time, whichever holder's
	writes   int64
	sent     atomic.Int64 // commands, if there is an observer

	mu       sync.Mutex // of the fields below, and of the holders'
	phase    phase
	key      uuid.UUID // that a detach has, or may have, written
	verdict  error     // what a release returns once the hold is replaced; if it may be replaced, why nobody knows
	validity validity
	limit    validity // HoldAtMost's, which nothing extends; zero without one
	watch    *time.Timer
	cause    error     // of the end of the validity, or nil
	ranOut   *Loss     // the validity's time was up, or nil
	loss     error     // that the server has declared, or nil
	holders  []*Handle // those who have not left
	unused   bool      // nobody used the lock: its release leaves no remainder; no entry that is shared does

	first Handle     // the first holder's part,
	room  [1]*Handle // and the list that holds it alone
}

// Handle is one holder's part of a [Hold]: its own end, and the order of its
// own commands. It is what a doclock.Lease is. The zero Handle behaves as lost.
type Handle struct {
	hold    *Hold
	writing gate // one write or release at a time

	over      error         // why this holder's part has ended, or nil
	done      chan struct{} // is closed then; made for the first who asks
	followers []follower
	released  *verdict      // set once this holder's part is being released
	announced *announcement // set by Announce, if there is an observer
	unused    bool          // no caller has got this part
	next      *Handle       // reserved before this part; under the mutex of Holds
}

// follower ends with a holder's part.
type follower interface{ ended(cause error) }

// verdict is how the release of a holder's part ended.
type verdict struct {
	err     error
	done    chan struct{}
	unknown bool // the event of the unknown outcome was emitted
}

// locker is what the holds of one Locker have in common.
type locker struct {
	engine     *engine.Engine  // for what is pure
	commands   engine.Commands // for what is sent: the engine's, or a test's
	ops        *attempt.Group
	succession Succession
	holds      *Holds
	observer   *Observer // or nil
}

func newHold(l *locker, g engine.Grant, sent engine.Reading, shared bool, unanswered []Unanswered) *Hold {
	s := &Hold{locker: l, grant: g, shared: shared, unanswered: unanswered, validity: validity{from: sent, ttl: g.TTL}}
	if g.Most > 0 {
		s.limit = validity{from: sent, ttl: g.Most}
	}
	s.first.hold = s
	s.holders = append(s.room[:0], &s.first)
	return s
}

// start begins to watch the validity's end.
func (s *Hold) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = time.AfterFunc(s.nextCheck(), func() { _ = s.err() })
}

// err is why the validity has ended, or nil.
func (s *Hold) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check()
}

// check ends the validity when its time is up. The hold is locked.
func (s *Hold) check() error {
	if s.cause != nil {
		return s.cause
	}
	if now := s.engine.Clocks(); s.leftAt(now) <= 0 {
		s.finish(s.runOut(now))
		return s.cause
	}
	s.watch.Reset(s.nextCheck())
	return nil
}

// nextCheck is when to check again: a few times more often than renewals make
// necessary, because no timer follows the wall clock.
func (s *Hold) nextCheck() time.Duration {
	return max(0, min(s.leftAt(s.engine.Clocks()), s.validity.ttl/4))
}

// giveUp ends the validity before a command is sent that ends the lock, or leaves it
// to others.
func (s *Hold) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(s.released())
}

// finish ends the validity for good, and every holder's part with it. The hold is
// locked.
func (s *Hold) finish(cause error) {
	s.watch.Stop()
	if s.cause != nil {
		return
	}
	s.cause = cause
	if errors.Is(cause, doclock.ErrLost) { // else its last command is to be sent
		s.holds.remove(s.grant.ID)
	}
	for _, h := range s.holders {
		h.end(cause)
	}
}

// end ends one holder's part, and what follows it. The hold is locked.
func (h *Handle) end(cause error) {
	if h.over != nil {
		return
	}
	h.over = cause
	if errors.Is(cause, doclock.ErrLost) {
		h.emitLost()
	}
	if h.done != nil {
		close(h.done)
	}
	for _, f := range h.followers {
		f.ended(cause)
	}
	h.followers = nil
}

// extend takes in that the server has renewed the entry.
func (s *Hold) extend(v validity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validity = s.validity.later(v)
}

// remaining is how long the holders may go on without a renewal.
func (s *Hold) remaining() time.Duration {
	if s.err() != nil || s.in(suspended) {
		return 0
	}
	return max(0, s.left())
}

// left is the time that the validity would have, had it not ended early.
func (s *Hold) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leftAt(s.engine.Clocks())
}

// since is when the validity began.
func (s *Hold) since() engine.Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validity.from
}

// kept is how long the server may still keep the entry, and at least an
// attempt.
func (s *Hold) kept() time.Duration {
	return max(s.left()+s.engine.Tolerance, s.engine.Attempt(s.grant.TTL).Timeout)
}

// settle sends a command until it is answered, for as long as the entry may be kept.
func (s *Hold) settle(ctx context.Context, send func(context.Context) error) (unsure, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.kept())
	defer cancel()
	return attempt.Settle(ctx, s.engine.Attempt(s.grant.TTL), send)
}

// isOver says that the validity has ended, without a look at the clock.
func (s *Hold) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause != nil
}
