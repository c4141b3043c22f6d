package engine

import (
	"sync"
	"time"
)

// Clockwatch finds out that a server's clock has jumped, or that another server with
// another clock answers. A server reads its clock between the send of a command and the
// answer. So each answer bounds by how much the server's clock is ahead of this
// machine's. Two answers prove a jump if these bounds are too far apart. A slow command
// proves little.
//
// The monotonic clock stands still while this machine is suspended, and the wall clock
// can be set. So a jump counts if it is proven by both.
type Clockwatch struct{ mono, wall span }

// See takes in a server's time, and returns the jump that it proves, if that is greater
// than most.
func (w *Clockwatch) See(now time.Time, sent, answered Reading, most time.Duration) time.Duration {
	server := time.Duration(now.UnixNano())
	byMono := w.mono.see(server-answered.Mono, server+Resolution-sent.Mono, answered.Mono, most)
	byWall := w.wall.see(now.Sub(answered.Wall), now.Add(Resolution).Sub(sent.Wall), answered.Mono, most)
	switch {
	case byMono > 0 && byWall > 0:
		return min(byMono, byWall)
	case byMono < 0 && byWall < 0:
		return max(byMono, byWall)
	default:
		return 0
	}
}

// Ahead is by how much the server's clock is ahead of this machine's wall clock, as far
// as the answers say.
func (w *Clockwatch) Ahead() time.Duration { return (w.wall.atLeast + w.wall.atMost) / 2 }

// clockwatch watches the clock in the images.
type clockwatch struct {
	jumped func(time.Duration) // gets the size of a jump; nil watches nothing

	mu       sync.Mutex
	clock    Clockwatch
	reported time.Duration // when, on the monotonic clock
	quiet    bool          // until a minute after that
}

const (
	drift     = 10_000      // clocks may drift apart by one part of so many
	perReport = time.Minute // servers that answer in turn would be reported with each answer
)

// OnClockJump has f called with the size of a jump of the server's clock by more than a
// quarter of the tolerance, once a minute at most. The size is the one that is proven.
// It is called before the first command is sent.
func (e *Engine) OnClockJump(f func(time.Duration)) { e.clockwatch.jumped = f }

// watch compares an image's clock with this machine's.
func (e *Engine) watch(img *Image, sent Reading) {
	if e.clockwatch.jumped == nil || e.Now != nil || img == nil || img.Whole() {
		return
	}
	if jump := e.clockwatch.see(img.Now, sent, e.Clocks(), e.Tolerance/4); jump != 0 {
		e.clockwatch.jumped(jump)
	}
}

// see returns the size of the jump that the server's clock proves, if it is to be
// reported.
func (w *clockwatch) see(now time.Time, sent, answered Reading, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	jump := w.clock.See(now, sent, answered, most)
	w.quiet = w.quiet && answered.Mono-w.reported < perReport
	if jump == 0 || w.quiet {
		return 0
	}
	w.reported, w.quiet = answered.Mono, true
	return jump
}

// Resolution is that of the server's clock: it cuts 10.9 ms to 10. So an entry that was
// written then ends up to a millisecond early.
const Resolution = time.Millisecond

// span is what the images have proven of the server's clock: it was ahead by atLeast
// at one time, and by atMost at another. Without jumps atLeast is not greater.
type span struct {
	atLeast, atMost time.Duration
	at              time.Duration // of the last image
	known           bool
}

// see takes in an image's bounds, and returns the jump that they prove, if it is
// greater than most. What was known before counts no more after a jump.
func (s *span) see(atLeast, atMost, at, most time.Duration) (jump time.Duration) {
	if s.known {
		passed := max(0, at-s.at) / drift
		s.atLeast, s.atMost = s.atLeast-passed, s.atMost+passed
		switch {
		case atLeast-s.atMost > most:
			jump = atLeast - s.atMost
		case s.atLeast-atMost > most:
			jump = atMost - s.atLeast
		default:
			atLeast, atMost = max(atLeast, s.atLeast), min(atMost, s.atMost)
		}
	}
	*s = span{atLeast, atMost, max(at, s.at), true}
	return jump
}
