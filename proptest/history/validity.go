package history

// Properties of what holders believe.
const (
	PropertyBelief       = "the holder's belief ends before the server lets anybody in"
	PropertyBelieveAlone = "nobody believes in a lease after one was granted that excludes it"
)

// belief takes every look of a holder at its lease.
func (c *check) belief() {
	for _, o := range c.operations {
		if o.Kind != Look || o.Outcome != Believed || o.Return == 0 {
			continue
		}
		a := c.byToken[lease{o.ID, o.Token}]
		if a == nil {
			continue // its grant was never seen: verdicts says so
		}
		clock := c.clocks[o.Process]
		c.Checked(PropertyBelief, 1)
		if until, kept := clock.earliest(o.Call+o.Remaining), c.keptAtMost(a, &o); until > kept {
			c.Violated(PropertyBelief, "document %s: the holder of %v believes until %d at the least, the server keeps it until %d at the most",
				c.ID, a, until/millisecond, kept/millisecond)
		}

		c.Checked(PropertyBelieveAlone, 1)
		at := clock.earliest(o.Call)
		for _, x := range c.arrivals {
			if x.Fence <= a.Fence || x.held >= at {
				continue
			}
			if r, respects := c.Table[x.Tag][a.Tag]; respects && r.Allow == 0 {
				c.Violated(PropertyBelieveAlone, "document %s: the holder of %v believes in it at %d, %v was granted by %d",
					c.ID, a, at/millisecond, x, x.held/millisecond)
			}
		}
	}
}

// keptAtMost is the latest that the server can have kept the entry for when
// the holder looked: what was seen of it, or what a command sent before can
// have made of it; and no more than what was seen of it afterwards, for an
// expiry never goes back.
func (c *check) keptAtMost(a *arrival, o *Operation) int64 {
	life := (c.TTL + c.Tolerance) * millisecond
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
		if command.ID != a.ID || c.sent(command) > looked {
			continue
		}
		if extends := command.Kind == CommandRenew || command.Kind == CommandAcquire || command.Kind == CommandConfirm; !extends {
			continue
		}
		switch {
		case command.Answered == 0:
			kept = max(kept, looked+life) // whenever it was: its effect came before the look, or has none on it
		case command.Matched && command.Image == nil:
			kept = max(kept, c.answered(command)+life)
		}
	}
	return min(kept, bound)
}
