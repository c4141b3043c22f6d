package history

import (
	"math"
	"time"
)

// The limits of time.
const (
	never   = math.MaxInt64
	forever = math.MinInt64
)

const millisecond = int64(time.Millisecond)

// clocksOf maps the processes' clocks.
func (h *History) clocksOf() map[int]clock {
	if h.Apart == 0 {
		return clocks(h.Commands)
	}
	all := map[int]clock{}
	for _, c := range h.Commands {
		all[c.Process] = clock{-h.Apart, h.Apart, true}
	}
	return all
}

// clock maps a process's clock to the server's. Every image with a time says
// that the server read its clock between the command's send and its reply, so
// the difference of the clocks lies in an interval. All images together narrow
// the interval down.
type clock struct {
	lo, hi int64 // the server's clock is this much ahead, in nanoseconds
	known  bool
}

// clocks makes the map of each process. If no single difference agrees with all
// images, a clock was set in the meantime: then the map is as wide as all
// differences together.
func clocks(commands []Command) map[int]clock {
	all := map[int]clock{}
	widest := map[int]clock{}
	for _, c := range commands {
		if c.Image == nil || c.Image.Now == 0 || c.Answered == 0 {
			continue
		}
		lo := c.Image.Now*millisecond - c.Answered
		hi := (c.Image.Now+1)*millisecond - c.Sent
		k, w := all[c.Process], widest[c.Process]
		if !k.known {
			k, w = clock{lo, hi, true}, clock{lo, hi, true}
		}
		all[c.Process] = clock{max(k.lo, lo), min(k.hi, hi), true}
		widest[c.Process] = clock{min(w.lo, lo), max(w.hi, hi), true}
	}
	for p, k := range all {
		if k.lo > k.hi {
			all[p] = widest[p]
		}
	}
	return all
}

// earliest is the server's earliest time at an instant of the process.
func (k clock) earliest(t int64) int64 {
	if !k.known || t == forever {
		return forever
	}
	return t + k.lo
}

// latest is the server's latest time at that instant.
func (k clock) latest(t int64) int64 {
	if !k.known || t == never {
		return never
	}
	return t + k.hi
}
