package model

import "slices"

// The servers' clocks. In a replica set a command takes the time from the member that executes it, in a sharded
// cluster from the router that it goes through.

// clockOf is the clock of the attempt at the member.
func (w *world) clockOf(m message, at int) int {
	if w.cfg.routers {
		return int(m.from)
	}
	return at
}

// nowOf is the time of one clock.
func (w *world) nowOf(clock int) int64 { return w.time + w.offsets[clock] }

// now is the time of the clock that is ahead of the others.
func (w *world) now() int64 { return w.time + slices.Max(w.offsets) }

// slowest is the time of the clock that is behind the others.
func (w *world) slowest() int64 { return w.time + slices.Min(w.offsets) }

// stride is the size of one step of a clock.
func (w *world) stride() int64 { return min(w.cfg.tick, w.cfg.tolerance) }

// clockSteps lists the steps of the clocks. The offsets stay between 0 and the tolerance, so that no two instants
// are more than that apart, or between 0 and the world's skew.
func (w *world) clockSteps() []action {
	if w.steps == 0 {
		return nil
	}
	var out []action
	for i, offset := range w.offsets {
		if offset < max(w.cfg.tolerance, w.cfg.skew) {
			out = append(out, action{kind: doStep, client: int8(i), index: 1})
		}
		if offset > 0 {
			out = append(out, action{kind: doStep, client: int8(i), index: -1})
		}
	}
	return out
}
