package engine

import (
	"cmp"
	"sync/atomic"
	"time"
)

// Reading is one reading of this machine's clocks. The monotonic clock can't be set. It
// may stand still while the machine is suspended: on Linux that time is added. The wall
// clock goes on, but it can be set.
type Reading struct {
	Mono time.Duration
	Wall time.Time // with no monotonic part
}

// Clocks reads the clocks.
func (c *Config) Clocks() Reading {
	if c.Clock != nil {
		return c.Clock()
	}
	now := time.Now()
	return Reading{Mono: now.Sub(c.start) + cmp.Or(c.suspensions, &suspensions).total(), Wall: now.Round(0)}
}

// suspensions are those of this machine.
var suspensions = suspended{ahead: bootAhead}

// suspended is for how long a machine was suspended.
type suspended struct {
	ahead func() time.Duration // of the monotonic clock is the one that goes on; or less, if the process stops between the two
	most  atomic.Int64
}

// unlike is how far two clocks drift apart, in a reading, that go on together.
const unlike = 10 * time.Millisecond

// total never decreases: what was seen once counts.
func (s *suspended) total() time.Duration {
	ahead := s.ahead()
	for {
		most := s.most.Load()
		switch {
		case ahead < time.Duration(most)+unlike:
			return time.Duration(most)
		case s.most.CompareAndSwap(most, int64(ahead)):
			return ahead
		}
	}
}
