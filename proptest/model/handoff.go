package model

// Successor is the client that a lease is handed over to.
type Successor struct {
	Request
	Waiting bool // its entry waits in the document; else it has none
}

// Handoff removes the lease's entry (see leave), and then decides on the successor as if it
// had asked directly afterwards: on a new one as a try-acquire, on a waiting
// one as a confirm. The outcome and the image are the successor's. So the lock
// is released whether or not the successor is granted. A new successor that is
// not granted leaves no trace, and a waiting one keeps its place.
//
// An update, if there is one, comes first, and makes the release a
// write-and-release: a repeat of unknown outcome looks for the id in done.
//
// If the lease's entry is not present, the command does nothing: NotApplied,
// without an image. A repeat has the same outcome.
func (p Protocol) Handoff(d *Document, from Lease, u Update, to Successor, now int64) (*Document, Outcome, *Document) {
	if _, ok := d.guarded(from, p.Without.FenceInHandoff); !ok {
		return d, NotApplied, nil
	}
	c := d.clone()
	p.leave(c, from, now)
	if u != 0 {
		c.finish(from.ID, u)
	}
	_, there := c.Find(to.Tag, to.ID)
	to.Upsert = false
	mode := Try
	if p.Without.SuccessorTries {
		mode = Queue
	}
	var outcome Outcome
	var image *Document
	if to.Waiting && (there || !p.Without.WaitingMustBeThere) {
		c, outcome, image = p.Confirm(c, to.Request, now)
	} else {
		c, outcome, image = p.Acquire(c, to.Request, mode, now)
	}
	switch {
	case outcome != Granted && p.Without.ReleaseAnyway:
		return d, outcome, d
	case outcome == Waits && to.Waiting && p.Without.WaitingKeepsPlace:
		c = c.clone()
		c.remove(to.Tag, to.ID)
		return c, Lost, c
	}
	return c, outcome, image
}

// CompareAndSet is a write-and-release and a handoff with plain operators, as a
// classic update needs them. The successor is new and of the lease's tag. The
// lease's entry was the only one in the image of its grant, with lock.fence at
// f: while the fence is still f, no entry has joined or been granted since, so
// that entry is still the tag's first one. If an outside writer has put other
// entries before it, the command does nothing. The successor's entry takes the place of the lease's, and keeps its expires. Its
// id, owner, seq, fence and since are its own, and it has written nothing yet.
func (p Protocol) CompareAndSet(d *Document, from Lease, u Update, to Request, f, now int64) (*Document, Outcome, *Document) {
	_, ok := d.guarded(from, p.Without.FenceInHandoff)
	if !ok || d.Entries(from.Tag)[0].ID != from.ID || d.Lock.Fence != f && !p.Without.SetComparesFence {
		return d, NotApplied, nil
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
	if !p.Without.SetUnsetsKey {
		e.Key = 0
	}
	if p.Without.SetPushesDone {
		c.Log = append(c.Log, u)
	} else {
		c.finish(from.ID, u)
	}
	return c, Granted, c
}
