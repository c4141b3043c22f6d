package model

// Protocol executes commands. The zero value is the protocol as written.
type Protocol struct {
	Without Without // rules left out, for tests that must notice
}

// Request names an entry and the terms of the request.
type Request struct {
	Rules     Rules
	Tag       Tag
	ID        ID
	Owner     string
	TTL       int64 // of a held entry
	WaitTTL   int64 // of a waiting entry
	Tolerance int64 // of clocks, added to both
	Upsert    bool  // Acquire makes the document if there is none
	Hold      int64 // HoldAtLeast: others are kept out for this time after the grant; 0: none
}

// Lease names a held entry by the values that its guard matches.
type Lease struct {
	Tag   Tag
	ID    ID
	Fence int64
}

// Mode selects the effect of an assertive relation that blocks an acquire.
type Mode int

// The modes.
const (
	Queue Mode = iota // join as a waiting entry
	Try               // leave nothing behind: a conflict
)

// Outcome is the meaning of the image.
type Outcome string

// The outcomes. If nothing matched a filter, a command can't tell why: a
// missing document or a foreign lock gives Lost or NotApplied.
const (
	Granted     Outcome = "granted"      // acquire, confirm, handoffs
	Waits       Outcome = "waiting"      // acquire, confirm, handoff
	Conflict    Outcome = "conflict"     // acquire: nothing written; handoff: nothing but the release
	NotFound    Outcome = "not found"    // acquire: no document
	ForeignLock Outcome = "foreign lock" // acquire, confirm: left untouched
	Lost        Outcome = "lost"         // no such entry, or not with this fence
	Renewed     Outcome = "renewed"      // renew, touch
	Detached    Outcome = "detached"     // detach
	Released    Outcome = "released"     // release
	Applied     Outcome = "applied"      // writes
	NotApplied  Outcome = "not applied"  // writes, handoffs: nothing matched
	Seen        Outcome = "read"         // read
)

// Acquire asks for an entry. A repeat (the entry is present already) extends
// the entry in place and returns its state. A new entry is granted, joins as
// waiting, or is refused without a trace.
func (p Protocol) Acquire(d *Document, r Request, mode Mode, now int64) (*Document, Outcome, *Document) {
	if d == nil {
		if !r.Upsert {
			return nil, NotFound, nil
		}
		d = &Document{}
	}
	if d.Field == Foreign {
		return d, ForeignLock, d
	}
	if e, ok := d.Find(r.Tag, r.ID); ok {
		return p.repeat(d, e, r, now)
	}
	refused, blocked := p.arrival(d, r.Rules, r.Tag, now)
	if refused || blocked && mode == Try {
		return d, Conflict, d
	}
	c := d.clone()
	c.Field = Ours
	p.enter(c, r, !blocked, now)
	if blocked {
		return c, Waits, c
	}
	return c, Granted, c
}

// enter prunes, and adds a new entry, held or waiting.
func (p Protocol) enter(c *Document, r Request, held bool, now int64) {
	p.prune(c, now)
	number := c.next(now)
	e := Entry{ID: r.ID, Owner: r.Owner, Seq: number, Since: now}
	if held {
		e.Fence = number
		e.Until = p.heldUntil(r, now)
	}
	if held || !p.Without.JoinRaisesFence {
		c.Lock.Fence = number
	}
	p.extend(&e, r, now)
	c.push(r.Tag, e)
}

// repeat extends a present entry in place, and prunes nothing.
func (p Protocol) repeat(d *Document, e Entry, r Request, now int64) (*Document, Outcome, *Document) {
	c := d.clone()
	if !p.Without.RepeatExtends {
		p.extend(c.at(r.Tag, r.ID), r, now)
	}
	return c, state(e), c
}

// state is the outcome for an entry that is there.
func state(e Entry) Outcome {
	if e.Held() {
		return Granted
	}
	return Waits
}

// Confirm asks whether a waiting entry can be granted now. It prunes, extends
// the entry and moves it to the end of its array in any case, and never makes
// one. A client must also compare the image's seq with its ticket's: an entry
// with another seq is not its own.
func (p Protocol) Confirm(d *Document, r Request, now int64) (*Document, Outcome, *Document) {
	if d == nil {
		return nil, Lost, nil
	}
	if d.Field == Foreign {
		return d, ForeignLock, d
	}
	e, ok := d.Find(r.Tag, r.ID)
	switch {
	case !ok && p.Without.ConfirmNeverCreates:
		return p.Acquire(d, r, Queue, now)
	case !ok:
		return d, Lost, d
	}
	c := d.clone()
	c.remove(r.Tag, r.ID)
	p.prune(c, now)
	repeat := e.Held() || p.blocked(d, r.Rules, r.Tag, e, now)
	if !repeat {
		c.Lock.Fence = c.next(now)
		e.Fence, e.Until = c.Lock.Fence, p.heldUntil(r, now)
	}
	if !repeat || !p.Without.RepeatExtends {
		p.extend(&e, r, now)
	}
	c.push(r.Tag, e)
	return c, state(e), c
}

// Renew extends the held entry of the lease. The entry must be present with its
// fence; its own expiry doesn't matter.
func (p Protocol) Renew(d *Document, l Lease, ttl, tolerance, now int64) (*Document, Outcome, *Document) {
	if _, ok := d.guarded(l, p.Without.FenceInRenew); !ok {
		return d, Lost, nil
	}
	c := d.clone()
	p.extend(c.at(l.Tag, l.ID), Request{TTL: ttl, Tolerance: tolerance}, now)
	return c, Renewed, c
}

// Release removes the entry by its id, held or waiting, and keeps its array. A
// lease's release may leave an entry that holds others out (see leave). The
// image is from before the command. The outcome is Released if the entry had
// the lease's fence, or if the lease names none (a ticket, a clean-up). An
// entry with a key is released with its fence only: it may be another handle's,
// or a token's.
func (p Protocol) Release(d *Document, l Lease, now int64) (*Document, Outcome, *Document) {
	e, ok := d.Find(l.Tag, l.ID)
	if !ok || e.Key != 0 && e.Fence != l.Fence && !p.Without.KeyNeedsFence {
		return d, Lost, nil
	}
	c := d.clone()
	if e.Fence == l.Fence && e.Held() {
		p.leave(c, l, now)
		return c, Released, d
	}
	c.remove(l.Tag, l.ID) // nobody had it: it waits, or a late acquire made it
	if l.Fence != 0 {
		return c, Lost, d
	}
	return c, Released, d
}

// Read shows the document.
func (p Protocol) Read(d *Document, now int64) (*Document, Outcome, *Document) {
	return d, Seen, d
}
