package history

import (
	"cmp"
	"slices"
)

// Properties of the validity of leases.
const (
	PropertyValidity   = "a lease's validity ends before the server lets another holder in"
	PropertyValidAlone = "no lease is valid after one was granted that excludes it"
)

// validity checks every look of a holder at its lease.
func (c *check) validity() {
	for _, o := range c.operations {
		if o.Kind != Look || o.Outcome != StillValid || o.Return == 0 {
			continue
		}
		a := c.byToken[lease{o.ID, o.Fence}]
		if a == nil {
			continue // its grant was never seen: verdicts reports that
		}
		clock := c.clocks[o.Process]
		if c.broken(a) <= clock.latest(o.Return) {
			continue // and the holder doesn't know
		}
		c.Checked(PropertyValidity, 1)
		if until, kept := clock.earliest(o.Call+o.Remaining), c.keptAtMost(a, &o); until > kept {
			c.violated(clock.earliest(o.Call), PropertyValidity, "%v is valid until %d at the least, the server keeps it until %d at the most", a, until/millisecond, kept/millisecond)
		}

		c.Checked(PropertyValidAlone, 1)
		at := clock.earliest(o.Call)
		for _, x := range c.arrivals {
			if x.Fence <= a.Fence || x.held >= at || !x.new() {
				continue
			}
			if r, respects := c.Rules[x.Tag][a.Tag]; respects && r.Allow == 0 {
				c.violated(at, PropertyValidAlone, "%v is valid at %d, %v was granted by %d", a, at/millisecond, x, x.held/millisecond)
			}
		}
	}
}

// keptAtMost is the latest time until which the server can have kept the entry
// when the holder looked. The bound comes from sightings of the entry, and from
// earlier commands. Later sightings bound it too, because an expiry never moves
// back.
func (c *check) keptAtMost(a *arrival, o *Operation) int64 {
	life := (max(cmp.Or(o.TTL, c.TTL), o.Least) + c.Tolerance) * millisecond
	kept := int64(0)
	bound := int64(never)
	clock := c.clocks[o.Process]
	looked := clock.latest(o.Return)
	for _, s := range c.sightings {
		e, there := s.find(a.ID)
		if !there || e.Fence != a.Fence {
			continue
		}
		if s.from > looked {
			bound = min(bound, e.Expires*millisecond)
		} else {
			kept = max(kept, e.Expires*millisecond)
		}
	}
	for i := range c.commands {
		command := &c.commands[i]
		if !c.extends(command, a) || c.sent(command) > looked {
			continue
		}
		switch {
		case command.Answered == 0:
			kept = max(kept, looked+life) // at any time: its effect came before the look, or doesn't matter to it
		case command.Matched && command.Image == nil:
			kept = max(kept, c.answered(command)+life)
		}
	}
	return min(kept, bound)
}

// extends reports whether the command may have extended the entry.
func (c *check) extends(command *Command, a *arrival) bool {
	switch command.Kind {
	case CommandRenew, CommandAcquire, CommandConfirm, CommandDetach, CommandResume, CommandDowngrade:
		return command.ID == a.ID
	case CommandTouch:
		return slices.Contains(c.byKey[command.Key], a.ID)
	default:
		return false
	}
}
