package multilock

import (
	"math/rand/v2"
	"time"
)

// Bounds of the pause between two polls.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = time.Second
	patience      = 8  // the pause is this fraction of the time for which nothing has changed,
	persistence   = 64 // and at least this one of the time waited
)

// rest is how long nobody asks again who was refused, unless something has made
// way since: no pause is shorter. It grows while nothing changes, as they do.
func rest(unchanged time.Duration) time.Duration {
	return min(max(unchanged/patience, shortestPause), longestPause) / 2
}

// pause is how long to wait before the next poll. While nothing changes it
// grows with that time, so that the added delay stays a small fraction of the
// wait and the number of polls grows with the wait's logarithm, up to a low
// constant rate. Where the lock goes from hand to hand, it is worth asking more
// often; but the more there are who ask, the longer they wait, and the less
// often each of them asks, unless the document's queue keeps a place for them.
// It is jittered, so that waiters that were turned away together don't come back
// together; and it never goes past the moment when the lock falls free by itself.
//
// ahead are those who come first in the document's queue: only those near its
// head ask often.
func pause(waited, unchanged, free time.Duration, ahead int) time.Duration {
	d := min(max(unchanged/patience, waited/persistence, shortestPause), longestPause)
	d = (d/2 + rand.N(d)) * time.Duration(1+ahead)
	if free > 0 && free < d {
		return free + rand.N(shortestPause)
	}
	return d
}
