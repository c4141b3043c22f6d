package model

// Downgrade removes the lease's entry and lets a new one arrive under another
// tag, in one command: a handoff to oneself. The new entry is judged without
// the old one, as any arrival is, and never waits. If it is refused or blocked,
// or if the old entry must keep others out for longer, nothing changes for
// anybody: the lease stays as it is.
//
// The command takes the number of the lease's next write. A refused one writes
// the number down, so that no other attempt of it is executed when the holder
// has gone on under the old tag. A repeat finds the new entry, or the number.
func (p Protocol) Downgrade(d *Document, from Lease, k int, to Request, now int64) (*Document, Outcome, *Document) {
	if e, ok := d.Find(to.Tag, to.ID); ok {
		return p.repeat(d, e, to, now)
	}
	e, ok := d.guarded(from, p.Without.FenceInDowngrade)
	if !ok {
		return d, Lost, d
	}
	if e.N >= k && !p.Without.DowngradeIsNumbered {
		return d, Conflict, d
	}
	c := d.clone()
	c.remove(from.Tag, from.ID)
	refused, blocked := p.arrival(c, to.Rules, to.Tag, now)
	early := e.Until > now && !p.Without.DowngradeHoldsOut
	if (refused || blocked) && !p.Without.DowngradeIsJudged || early {
		return p.refuse(d, c, from, k, now)
	}
	p.enter(c, to, true, now)
	return c, Granted, c
}

// refuse leaves the lease as it is, but for the number.
func (p Protocol) refuse(d, released *Document, from Lease, k int, now int64) (*Document, Outcome, *Document) {
	if p.Without.RefusalKeeps {
		return released, Conflict, released
	}
	c := d.clone()
	if !p.Without.DowngradeIsNumbered {
		c.at(from.Tag, from.ID).N = k
	}
	return c, Conflict, c
}
