package history

import "slices"

// Properties of the callers' results.
const (
	PropertyGrant   = "a returned lease was granted by the server, with this fence"
	PropertyVerdict = "a successful release, write or detach means that no other holder was let in and nobody had resumed the lease, " +
		"a lost release that the entry was absent, a failed release that nobody else was let in until its return"
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
				c.violated(c.clocks[o.Process].earliest(o.Call), PropertyGrant, "%s returned %s %.8s with fence %d, which no image shows", o.Kind, o.Tag, o.ID, o.Fence)
			}
		case Release, UpdateAndRelease, Update, Detach:
			if a == nil {
				continue
			}
			c.Checked(PropertyVerdict, 1)
			if o.Outcome == Lost && removed[key] && o.Kind == Release {
				c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict, "Release of %v was lost, though the server found it", a)
			}
			until := c.clocks[o.Process].earliest(o.Call)
			own, others := c.releasesOf(a, o.Process)
			switch {
			case others != never && o.Kind == Release:
				continue // the lock was broken; a holder whose replies are lost can't know
			case (o.Outcome == Failed || o.Outcome == Done) && o.Kind == Release:
				until = min(c.clocks[o.Process].earliest(o.Return), own)
			case o.Outcome != Done:
				continue
			}
			for _, x := range c.arrivals {
				if x.Fence <= a.Fence || x.held >= until {
					continue
				}
				if x.resumed && x.Seq == a.Seq && o.Outcome == Done && !(o.Kind == Release && c.broken(x) != never) { // a release that was refused has not looked
					c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict,
						"%s of %v: %s, though its entry had been resumed by %d as %v, before %d", o.Kind, a, o.Outcome, x.held/millisecond, x, until/millisecond)
				}
				if x.new() {
					if r, respects := c.Rules[x.Tag][a.Tag]; respects && r.Allow == 0 {
						c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict, "%s of %v: %s, though %v had been granted by %d, before %d", o.Kind, a, o.Outcome, x, x.held/millisecond, until/millisecond)
					}
				}
			}
		}
	}
}

// broken is the earliest time at which an operator may have removed the entry, also
// under the id of a later user of its token, or of what a user's release has left. An
// earlier user can't know: no trace is left for a release that has lost a reply, and
// its lease ends with its next command.
func (c *check) broken(a *arrival) int64 {
	at := int64(never)
	for _, x := range c.arrivals {
		if x.Seq != a.Seq || x.Fence < a.Fence {
			continue
		}
		process := nobody
		if i := slices.IndexFunc(c.operations, func(o Operation) bool { return o.ID == x.ID }); i >= 0 {
			process = c.operations[i].Process
		} else if !x.remainder {
			continue
		}
		_, others := c.releasesOf(x, process)
		at = min(at, others)
	}
	return at
}

// nobody is the process of a remainder.
const nobody = -1

// releasesOf are the earliest times at which the holder, and an operator or another
// holder who has deleted the document, may have removed the entry.
func (c *check) releasesOf(a *arrival, process int) (own, others int64) {
	own, others = never, never
	for i := range c.commands {
		switch command := &c.commands[i]; {
		case command.Kind == CommandDelete && command.ID != a.ID: // by another holder beside it
			others = min(others, c.sent(command))
		case command.ID != a.ID || command.Fence != 0 && command.Fence != a.Fence:
		case command.Kind != CommandRelease && command.Kind != CommandWriteAndRelease && command.Kind != CommandDelete:
		case command.Process == process:
			own = min(own, c.sent(command))
		default:
			others = min(others, c.sent(command))
		}
	}
	return own, others
}
