package model

// Handoff gives the lease's place to a new entry, to.ID, in one command, if
// that would be granted at once were the lease's entry not there.
//
// Where to.ID is held already (a repeat), it is extended in place, and the
// lease's id goes, whatever its fence.
func (p Protocol) Handoff(d *Document, from Lease, to Request, now int64) (*Document, Outcome, Image) {
	return p.handoff(d, from, to, false, now)
}

// HandoffToWaiting gives the lease's place to an entry that must be waiting:
// one that has gone is never made again.
func (p Protocol) HandoffToWaiting(d *Document, from Lease, to Request, now int64) (*Document, Outcome, Image) {
	return p.handoff(d, from, to, true, now)
}

func (p Protocol) handoff(d *Document, from Lease, to Request, waiting bool, now int64) (*Document, Outcome, Image) {
	if d == nil {
		return nil, Lost, Image{nil, now}
	}
	if d.Field == Foreign {
		return d, ForeignLock, Image{d, now}
	}
	second, there := d.Find(to.Tag, to.ID)
	if there && second.Held() {
		return p.handoffRepeat(d, from, to, now)
	}
	if _, ok := d.guarded(from, p.Without.FenceInHandoff); !ok {
		return d, Lost, Image{d, now}
	}
	if waiting && !there && !p.Without.WaitingMustBeThere {
		return d, NotPossible, Image{d, now}
	}
	possible := false
	if there {
		possible = !p.blocked(d, to.Table, to.Tag, second, from.ID, now)
	} else {
		refused, blocked := p.arrival(d, to.Table, to.Tag, from.ID, now)
		possible = !refused && !blocked
	}
	if !possible {
		return d, NotPossible, Image{d, now}
	}
	c := d.clone()
	c.remove(from.Tag, from.ID)
	p.prune(c, to.ID, now)
	if !there {
		c.push(to.Tag, Entry{ID: to.ID, Owner: to.Owner, Seq: c.next(now), Since: now})
	}
	p.grant(c, to, now)
	return c, HandedOver, Image{c, now}
}

// handoffRepeat is a handoff that finds the second id held.
func (p Protocol) handoffRepeat(d *Document, from Lease, to Request, now int64) (*Document, Outcome, Image) {
	c := d.clone()
	if !p.Without.HandoffRepeatExtends {
		p.extend(c.at(to.Tag, to.ID), to, now)
	}
	if !p.Without.HandoffRepeatRemoves {
		c.remove(from.Tag, from.ID)
	}
	return c, HandedOver, Image{c, now}
}

// Ride is an update that rides along with a compare-and-set handoff, under
// the lease's next number.
type Ride struct {
	K int
	U Update // 0: nothing rides along
}

// CompareAndSet hands over with plain operators, where the last image showed
// the lease's entry only and lock.fence at f: while the fence is still f,
// nobody joined or was granted since. The entry stays where it is and keeps
// its expires and since; id, owner and numbers are the new one's, and the new
// one has written nothing yet.
func (p Protocol) CompareAndSet(d *Document, from Lease, to ID, owner string, f int64, ride Ride, now int64) (*Document, Outcome, Image) {
	e, ok := d.guarded(from, p.Without.FenceInHandoff)
	if !ok || d.Lock.Fence != f && !p.Without.SetComparesFence {
		return d, NotApplied, Image{nil, now}
	}
	if ride.U != 0 && e.N >= ride.K && !p.Without.RideIsNumbered {
		return d, NotApplied, Image{nil, now}
	}
	c := d.clone()
	number := d.Lock.Fence + 1
	c.Lock.Fence = number
	n := c.at(from.Tag, from.ID)
	n.ID, n.Owner, n.Seq, n.Fence = to, owner, number, number
	if !p.Without.SetUnsetsNumber {
		n.N = 0
	}
	if ride.U != 0 {
		c.Log = append(c.Log, ride.U)
		c.finish(from.ID)
	}
	return c, HandedOver, Image{c, now}
}
