package model

// Token is what a detach returns: whoever shows it can resume the lease.
type Token struct {
	Tag Tag
	Key ID
}

// Keyed returns the entry that the token names.
func (d *Document) Keyed(k Token) (Entry, bool) {
	if d == nil || d.Field != Ours || k.Key == 0 {
		return Entry{}, false
	}
	return first(d.Entries(k.Tag), func(e Entry) bool { return e.Key == k.Key && e.Held() })
}

// Detach ends the lease's handle and leaves its entry to whoever shows the key.
// The entry keeps its id, fence and number: until a resume the handle's own
// late writes still find it, and are still applied once.
func (p Protocol) Detach(d *Document, l Lease, key ID, ttl, tolerance, now int64) (*Document, Outcome, *Document) {
	if _, ok := d.guarded(l, p.Without.FenceInDetach); !ok {
		return d, Lost, nil
	}
	c := d.clone()
	e := c.at(l.Tag, l.ID)
	e.Key, e.Detached = key, true
	if !p.Without.DetachExtends {
		p.extend(e, Request{TTL: ttl, Tolerance: tolerance}, now)
	}
	return c, Detached, c
}

// Resume gives the token's entry to a new handle, with an id, a fence and
// numbers of its own. It finds an entry that has expired: nobody was let in
// while it was present. If the entry still had a handle, that one's lease may
// count as valid until the entry's expiry: others are kept out until then,
// whatever the new handle does. A repeat finds its id and only extends.
func (p Protocol) Resume(d *Document, k Token, r Request, now int64) (*Document, Outcome, *Document) {
	e, ok := d.Keyed(k)
	if !ok {
		return d, Lost, nil
	}
	c := d.clone()
	own := c.at(k.Tag, e.ID)
	if e.ID != r.ID {
		p.takeOver(c, own, r, now)
	}
	p.extend(own, r, now)
	return c, Granted, c
}

func (p Protocol) takeOver(c *Document, e *Entry, r Request, now int64) {
	if !e.Detached && !p.Without.TakeoverHoldsOut {
		e.Until = max(e.Until, e.Expires)
	}
	if !p.Without.ResumeAttaches {
		e.Detached = false
	}
	if !p.Without.ResumeUnsetsNumber {
		e.N = 0
	}
	if !p.Without.NewIDAtResume {
		e.ID = r.ID
	}
	e.Owner = r.Owner
	if p.Without.NewFenceAtResume {
		return
	}
	e.Fence = c.next(now)
	if !p.Without.ResumeRaisesFence {
		c.Lock.Fence = e.Fence
	}
}

// Touch extends the token's entry and gives it to nobody: a heartbeat.
func (p Protocol) Touch(d *Document, k Token, ttl, tolerance, now int64) (*Document, Outcome, *Document) {
	e, ok := d.Keyed(k)
	if !ok {
		return d, Lost, nil
	}
	c := d.clone()
	p.extend(c.at(k.Tag, e.ID), Request{TTL: ttl, Tolerance: tolerance}, now)
	return c, Renewed, c
}
