package model

// heldUntil is the time until which the grant keeps others out, whether or not
// its holder releases the lock earlier. The server counts it from the grant.
func (p Protocol) heldUntil(r Request, now int64) int64 {
	if r.Hold == 0 {
		return 0
	}
	if p.Without.HoldFromGrant {
		now = 0
	}
	return now + r.Hold + r.Tolerance
}

// leave ends the lease's entry. Before the entry's time it leaves another entry
// in its place, which nobody holds and nobody can extend: it has an id of its
// own, no key, no number, and exactly the rest of the time. The fence stays,
// because only held entries keep everybody out.
func (p Protocol) leave(c *Document, l Lease, now int64) {
	e := c.at(l.Tag, l.ID)
	if p.Without.HoldFromGrant && e.Until > 0 {
		e.Until += now
	}
	if e.Until <= now || p.Without.HoldsOut {
		c.remove(l.Tag, l.ID)
		return
	}
	e.Expires, e.N, e.Detached = e.Until, 0, false
	if !p.Without.HoldDropsKey {
		e.Key = 0
	}
	if !p.Without.NewIDAtHold {
		e.ID = leftBy(l.ID)
	}
}

// leftBy is the id of the entry that the release of a lease leaves. At a server
// it is random, and the release brings it along.
func leftBy(id ID) ID { return -id }
