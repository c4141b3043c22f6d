package history

// Properties of the callers' results.
const (
	PropertyGrant   = "a returned lease was granted by the server, with this fence"
	PropertyVerdict = "a successful release, write or detach means that no other holder was let in and nobody had resumed the lease, a lost release that the entry was absent"
)

func (c *check) verdicts() {
	removed := map[lease]bool{} // by a release that found it
	for i := range c.commands {
		switch command := &c.commands[i]; {
		case command.Kind != CommandRelease || !command.Matched:
		case command.Fence != 0: // in a handoff
			removed[lease{command.ID, command.Fence}] = true
		case command.Own != nil && command.Own.Fence != 0:
			removed[lease{command.ID, command.Own.Fence}] = true
		}
	}
	for _, o := range c.operations {
		if o.Return == 0 || o.Fence == 0 {
			continue
		}
		key := lease{o.ID, o.Fence}
		a := c.byToken[key]
		switch o.Kind {
		case TryAcquire, Acquire, Enqueue, Confirm, Wait, Claim, Resume, Downgrade:
			if o.Outcome != Granted {
				continue
			}
			c.Checked(PropertyGrant, 1)
			if a == nil || a.Tag != o.Tag {
				c.Violated(PropertyGrant, "document %s: %s returned %s %.8s with fence %d, which no image shows", c.ID, o.Kind, o.Tag, o.ID, o.Fence)
			}
		case Release, UpdateAndRelease, Update, Detach:
			if a == nil {
				continue
			}
			c.Checked(PropertyVerdict, 1)
			if o.Outcome == Lost && removed[key] && o.Kind == Release {
				c.Violated(PropertyVerdict, "document %s: Release of %v was lost, though the server found it", c.ID, a)
			}
			if o.Outcome != Done {
				continue
			}
			call := c.clocks[o.Process].earliest(o.Call)
			for _, x := range c.arrivals {
				if x.Fence <= a.Fence || x.held >= call {
					continue
				}
				if x.resumed && x.Seq == a.Seq {
					c.Violated(PropertyVerdict, "document %s: %s of %v succeeded, though its entry had been resumed by %d as %v, before the call at %d", c.ID, o.Kind, a, x.held/millisecond, x, call/millisecond)
				}
				if x.new() {
					if r, respects := c.Rules[x.Tag][a.Tag]; respects && r.Allow == 0 {
						c.Violated(PropertyVerdict, "document %s: %s of %v succeeded, though %v had been granted by %d, before the call at %d", c.ID, o.Kind, a, x, x.held/millisecond, call/millisecond)
					}
				}
			}
		}
	}
}
