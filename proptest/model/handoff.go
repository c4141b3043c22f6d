package model

// Heir is who a lease is handed over to.
type Heir struct {
	Request
	Waiting bool // its entry waits in the document; else it has none
}

// Handoff removes the lease's entry, and then judges the heir as if it had
// asked the moment after: a new one as a try-acquire, a waiting one as a
// confirm. The outcome and the image are the heir's. So the lock is released,
// whether the heir can have it or not; a new heir that can't leaves nothing,
// and a waiting one keeps its place.
//
// Where the lease's entry is not there, nothing is done: NotApplied, with no
// image. A repeat finds that, too.
func (p Protocol) Handoff(d *Document, from Lease, to Heir, now int64) (*Document, Outcome, Image) {
	if _, ok := d.guarded(from, p.Without.FenceInHandoff); !ok {
		return d, NotApplied, Image{nil, now}
	}
	c := d.clone()
	c.remove(from.Tag, from.ID)
	return p.succeed(d, c, to, now)
}

// WriteAndHandOff is a write-and-release and a handoff in one command: the
// update, and what a repeat of unknown outcome looks for, go first.
func (p Protocol) WriteAndHandOff(d *Document, from Lease, u Update, to Heir, now int64) (*Document, Outcome, Image) {
	if _, ok := d.guarded(from, p.Without.FenceInHandoff); !ok {
		return d, NotApplied, Image{nil, now}
	}
	c, _, _ := p.WriteAndRelease(d, from, u, now)
	return p.succeed(d, c, to, now)
}

// succeed judges the heir in the document without the lease.
func (p Protocol) succeed(d, c *Document, to Heir, now int64) (*Document, Outcome, Image) {
	_, there := c.Find(to.Tag, to.ID)
	to.Upsert = false
	var outcome Outcome
	var image Image
	switch mode := Try; {
	case to.Waiting && (there || !p.Without.WaitingMustBeThere):
		c, outcome, image = p.Confirm(c, to.Request, now)
	default:
		if p.Without.HeirTries {
			mode = Queue
		}
		c, outcome, image = p.Acquire(c, to.Request, mode, now)
	}
	switch {
	case outcome != Granted && p.Without.ReleaseAnyway:
		return d, outcome, Image{d, now}
	case outcome == Waits && to.Waiting && p.Without.WaitingKeepsPlace:
		c = c.clone()
		c.remove(to.Tag, to.ID)
		return c, Lost, Image{c, now}
	}
	return c, outcome, image
}

// CompareAndSet is a write-and-release and a handoff with plain operators, as a
// classic update needs them. The heir is new and of the lease's tag, and the
// lease's entry was the only one in the image of its grant, with lock.fence at
// f: while the fence is still f, nobody joined or was granted since. The
// heir's entry takes the place of the lease's, and keeps its expires; id, owner,
// numbers and since are its own, and it has written nothing yet.
func (p Protocol) CompareAndSet(d *Document, from Lease, u Update, to Request, f, now int64) (*Document, Outcome, Image) {
	_, ok := d.guarded(from, p.Without.FenceInHandoff)
	if !ok || d.Lock.Fence != f && !p.Without.SetComparesFence {
		return d, NotApplied, Image{nil, now}
	}
	c := d.clone()
	number := f + 1
	if p.Without.SetComparesFence {
		number = d.Lock.Fence + 1
	}
	c.Lock.Fence = number
	e := c.at(from.Tag, from.ID)
	e.ID, e.Owner, e.Seq, e.Fence, e.Since = to.ID, to.Owner, number, number, now
	if !p.Without.SetUnsetsNumber {
		e.N = 0
	}
	c.Log = append(c.Log, u)
	if !p.Without.SetPushesDone {
		c.finish(from.ID)
	}
	return c, Granted, Image{c, now}
}
