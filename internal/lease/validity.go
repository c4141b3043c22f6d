package lease

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// validity is the time for which holders may rely on their lock without asking
// the server. It starts before the command that granted or renewed was sent, so
// it ends before the server lets others in, however long the command took. Two
// clocks of this machine measure it, and it ends when either says so: the
// monotonic clock stands still while the machine is suspended, and the wall
// clock can be set.
type validity struct {
	from engine.Reading
	ttl  time.Duration
}

// resolution is that of the server's clock: it cuts 10.9 ms to 10. So an entry that was
// written then ends up to a millisecond early.
const resolution = time.Millisecond

// left is the time that remains; it is not positive when the validity is over.
func (v validity) left(now engine.Reading) time.Duration {
	passed := max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))
	return v.ttl - resolution - passed
}

// lasting is the validity that ends a span after now, of a lease with this TTL.
func lasting(span time.Duration, now engine.Reading, ttl time.Duration) validity {
	passed := ttl - span
	return validity{from: engine.Reading{Mono: now.Mono - passed, Wall: now.Wall.Add(-passed)}, ttl: ttl}
}

// later is the validity that lasts longer: answers may come out of order.
func (v validity) later(other validity) validity {
	if other.from.Mono > v.from.Mono {
		return other
	}
	return v
}
