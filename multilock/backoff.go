package multilock

import (
	"math/rand/v2"
	"time"
)

// Bounds of the pause between two polls.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = time.Second
	patience      = 8 // the pause is this fraction of the time waited so far
)

// pause is how long to wait before the next poll. It grows with the time
// waited, so that the added delay stays a small fraction of the wait and the
// number of polls grows with the wait's logarithm, up to a low constant rate.
// It is jittered, so that waiters that were turned away together don't come
// back together; and it never goes past the moment when the lock falls free by
// itself.
func pause(waited, free time.Duration) time.Duration {
	d := min(max(waited/patience, shortestPause), longestPause)
	d = d/2 + rand.N(d)
	if free > 0 && free < d {
		return free + rand.N(shortestPause)
	}
	return d
}
