package model

import "slices"

// Write applies an update under the lease and keeps the lock. k numbers the
// lease's writes from 1 on. A number that is not above the entry's is not
// applied again. The command uses no clock.
func (p Protocol) Write(d *Document, l Lease, k int, u Update, now int64) (*Document, Outcome, *Document) {
	e, ok := d.guarded(l, p.Without.FenceInWrite)
	if !ok || p.written(d, e, k) {
		return d, NotApplied, nil
	}
	c := d.clone()
	if p.Without.NumberInEntry {
		c.finish(shared(l.ID, k), u)
	} else {
		c.Log = append(c.Log, u)
		c.at(l.Tag, l.ID).N = k
	}
	return c, Applied, c
}

// written reports whether the entry's write number k has been applied.
func (p Protocol) written(d *Document, e Entry, k int) bool {
	switch {
	case p.Without.Numbering:
		return false
	case p.Without.NumberInEntry:
		return slices.Contains(d.Lock.Done, shared(e.ID, k))
	}
	return e.N >= k
}

// shared represents an entry's write number in a shared list: the design that
// rule 14 warns of.
func shared(id ID, k int) ID { return -(id*1000 + ID(k)) }

// WriteAndRelease applies an update under the lease, removes the entry (its
// array stays, and see leave), and adds the id to done.
func (p Protocol) WriteAndRelease(d *Document, l Lease, u Update, now int64) (*Document, Outcome, *Document) {
	if _, ok := d.guarded(l, p.Without.FenceInWrite); !ok {
		return d, NotApplied, nil
	}
	c := d.clone()
	p.leave(c, l, now)
	c.finish(l.ID, u)
	return c, Applied, c
}

// Delete deletes the document under the lease, and the lock with it.
func (p Protocol) Delete(d *Document, l Lease, now int64) (*Document, Outcome, *Document) {
	if _, ok := d.guarded(l, p.Without.FenceInWrite); !ok {
		return d, Lost, nil
	}
	return nil, Released, d
}

// remaining is the time for which a lease stays valid after the send of the
// read that returned the image at the server's time now. It is 0 if the image
// lacks the lease's entry with its fence.
func (d *Document) remaining(l Lease, ttl, tolerance, now int64) int64 {
	e, ok := d.guarded(l, false)
	if !ok {
		return 0
	}
	return max(0, min(ttl, e.Expires-now-tolerance))
}
