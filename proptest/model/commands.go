package model

import (
	"cmp"
	"slices"
)

// Protocol executes commands. The zero value is the protocol as written.
type Protocol struct {
	Without Without // rules left out, for tests that must notice
	Done    int     // the number of ids of ended leases that the document remembers; 0: 8
}

func (p Protocol) done() int { return cmp.Or(p.Done, 8) }

// Request names an entry and the terms of the request.
type Request struct {
	Rules     Rules
	Tag       Tag
	ID        ID
	Owner     string
	TTL       int64   // of a held entry
	WaitTTL   int64   // of a waiting entry
	Tolerance int64   // of clocks, added to both
	Upsert    bool    // Acquire makes the document if there is none
	Hold      int64   // HoldAtLeast: others are kept out for this time after the grant; 0: none
	TakeOver  []Lease // entries that it ends; then it never waits
}

// Lease names a held entry by the values that its guard matches.
type Lease struct {
	Tag   Tag
	ID    ID
	Fence int64
}

// Mode selects the effect of an assertive relation that blocks an acquire.
type Mode int

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
	NotApplied  Outcome = "not applied"  // writes, handoffs: nothing matched; delete: before its time
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
		d = &Document{Field: Ours}
	}
	if d.Field == Foreign {
		return d, ForeignLock, d
	}
	if e, ok := d.Find(r.Tag, r.ID); ok {
		return p.repeat(d, e, r, now)
	}
	if r.TakeOver != nil {
		return p.takeOver(d, r, now)
	}
	refused, blocked := p.arrival(d, r.Rules, r.Tag, now)
	if refused || blocked && mode == Try || d.Exhausted(now) {
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

// takeOver is a break and an acquire in one command. It is granted, or writes nothing. A named entry is removed if it
// has the fence that it was seen with (a waiting one has none). If a live held one is among them, the new entry takes its
// place: it is judged beside held entries only. Else it is an arrival that doesn't wait.
func (p Protocol) takeOver(d *Document, r Request, now int64) (*Document, Outcome, *Document) {
	c := d.clone()
	c.Field = Ours
	ended := false
	for _, l := range r.TakeOver {
		e, there := c.Find(l.Tag, l.ID)
		if !there || e.Fence != l.Fence && !p.Without.FenceInTakeOver {
			continue
		}
		c.remove(l.Tag, l.ID)
		if e.Held() && e.Live(now) && !p.Without.TakeOverLeavesBroken {
			c.Lock.Broken = max(c.Lock.Broken, e.Fence)
		}
		ended = ended || e.Held() && (e.Live(now) || p.Without.ExpiredEndsNothing)
	}
	refused, blocked := p.arrival(c, r.Rules, r.Tag, now)
	if ended {
		refused, blocked = !p.passes(c, r.Rules, r.Tag, now), false
	}
	free := !refused && !blocked || p.Without.TakeOverIsJudged
	switch {
	case d.Exhausted(now), !free && !p.Without.TakeOverOrNothing:
		return d, Conflict, d
	case !free && refused:
		return c, Conflict, c
	}
	p.enter(c, r, free, now)
	e, _ := c.Find(r.Tag, r.ID)
	return c, state(e), c
}

// Claim asks for an entry of a document that is free. What it doesn't grant it doesn't find.
// The id is new: a claim is never repeated.
func (p Protocol) Claim(d *Document, r Request, now int64) (*Document, Outcome, *Document) {
	if _, there := d.Find(r.Tag, r.ID); there {
		return d, NotFound, nil
	}
	r.Upsert = false
	after, outcome, image := p.Acquire(d, r, Try, now)
	if outcome != Granted {
		return d, NotFound, nil
	}
	return after, Granted, image
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
	repeat := e.Held() || p.blocked(d, r.Rules, r.Tag, e, now)
	if !repeat && d.Exhausted(now) {
		return d, Waits, d
	}
	c := d.clone()
	c.remove(r.Tag, r.ID)
	p.prune(c, now)
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

// Break removes one entry, as an operator does: held or waiting, whatever its key and its time are. The fence of a held
// one stays in the lock: a release of its holder may have an attempt of unknown outcome, and find nothing.
func (p Protocol) Break(d *Document, l Lease, now int64) (*Document, Outcome, *Document) {
	e, ok := d.Find(l.Tag, l.ID)
	if !ok || e.Fence != l.Fence {
		return d, Lost, nil
	}
	c := d.clone()
	c.remove(l.Tag, l.ID)
	c.Lock.Broken = max(c.Lock.Broken, e.Fence)
	return c, Released, d
}

func (p Protocol) Read(d *Document) (*Document, Outcome, *Document) {
	return d, Seen, d
}

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
		p.finish(c, shared(l.ID, k), u)
	} else {
		c.Log = append(c.Log, u)
		c.at(l.Tag, l.ID).N = k
	}
	return c, Applied, c
}

// finish applies the update, and records that the lease ended with it.
func (p Protocol) finish(d *Document, id ID, u Update) {
	d.Log = append(d.Log, u)
	d.Lock.Done = append(d.Lock.Done, id)
	if n := len(d.Lock.Done); n > p.done() {
		d.Lock.Done = slices.Delete(d.Lock.Done, 0, n-p.done())
	}
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
	p.finish(c, l.ID, u)
	return c, Applied, c
}

// Delete deletes the document under the lease, and the lock with it, unless another
// user of the entry's token may count on it.
func (p Protocol) Delete(d *Document, l Lease, now int64) (*Document, Outcome, *Document) {
	e, ok := d.guarded(l, p.Without.FenceInWrite)
	switch {
	case !ok:
		return d, Lost, nil
	case e.Key != 0 && e.Until > now && !p.Without.DeleteHoldsOut:
		return d, NotApplied, nil
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

// Token is what a detach returns: whoever shows it can resume the lease.
type Token struct {
	Tag Tag
	Key ID
}

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
//
// matches says that the document is what the caller's filter demands beside its _id. If it is not, that is no word on
// the token. A repeat does not ask: the holder, or a late write, may have changed the document since.
func (p Protocol) Resume(d *Document, k Token, r Request, matches bool, now int64) (*Document, Outcome, *Document) {
	e, _ := d.Keyed(k)
	if missed := p.missed(d, k, matches || e.ID == r.ID && !p.Without.RepeatFindsItself); missed != "" {
		return d, missed, nil
	}
	if e.ID != r.ID && d.Exhausted(now) {
		return d, Conflict, d
	}
	c := d.clone()
	own := c.at(k.Tag, e.ID)
	if e.ID != r.ID {
		p.attach(c, own, r, now)
	}
	p.extend(own, r, now)
	return c, Granted, c
}

func (p Protocol) attach(c *Document, e *Entry, r Request, now int64) {
	if !e.Detached && !p.Without.EarlierHoldsOut {
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
	e.Owner = cmp.Or(r.Owner, e.Owner)
	if p.Without.NewFenceAtResume {
		return
	}
	e.Fence = c.next(now)
	if !p.Without.ResumeRaisesFence {
		c.Lock.Fence = e.Fence
	}
}

// missed is the outcome where the token's entry is not there, or where the filter misses the document that has it; else "".
func (p Protocol) missed(d *Document, k Token, matches bool) Outcome {
	_, there := d.Keyed(k)
	switch {
	case !there:
		return d.unkeyed()
	case !matches && p.Without.MissIsNoLoss:
		return Lost
	case !matches:
		return NotFound
	}
	return ""
}

// unkeyed is the outcome where the token's entry is not there.
func (d *Document) unkeyed() Outcome {
	if d == nil {
		return NotFound
	}
	return Lost
}

// Touch extends the token's entry and gives it to nobody: a heartbeat.
func (p Protocol) Touch(d *Document, k Token, matches bool, ttl, tolerance, now int64) (*Document, Outcome, *Document) {
	if missed := p.missed(d, k, matches); missed != "" {
		return d, missed, nil
	}
	e, _ := d.Keyed(k)
	c := d.clone()
	p.extend(c.at(k.Tag, e.ID), Request{TTL: ttl, Tolerance: tolerance}, now)
	return c, Renewed, c
}

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
		p.finish(c, from.ID, u)
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
		p.finish(c, from.ID, u)
	}
	return c, Granted, c
}

// Convert removes the lease's entry and lets a new one arrive under another
// tag, in one command: a handoff to oneself. The new entry is judged beside the held
// ones that remain, and never waits. If it is refused, or if the old entry must keep
// others out for longer, nothing changes for anybody: the lease stays as it is.
//
// The command takes the number of the lease's next write. A refused one writes
// the number down, so that no other attempt of it is executed when the holder
// has gone on under the old tag. A repeat finds the new entry, or the number.
func (p Protocol) Convert(d *Document, from Lease, k int, to Request, now int64) (*Document, Outcome, *Document) {
	if e, ok := d.Find(to.Tag, to.ID); ok {
		return p.repeat(d, e, to, now)
	}
	e, ok := d.guarded(from, p.Without.FenceInConversion)
	if !ok {
		return d, Lost, d
	}
	if e.N >= k && !p.Without.ConversionIsNumbered {
		return d, Conflict, d
	}
	c := d.clone()
	c.remove(from.Tag, from.ID)
	refused := !p.passes(c, to.Rules, to.Tag, now) && !p.Without.ConversionIsJudged
	early := e.Until > now && !p.Without.ConversionHoldsOut
	if refused || early || d.Exhausted(now) {
		return p.refuse(d, c, from, k)
	}
	p.enter(c, to, true, now)
	return c, Granted, c
}

// refuse leaves the lease as it is, but for the number.
func (p Protocol) refuse(d, released *Document, from Lease, k int) (*Document, Outcome, *Document) {
	if p.Without.RefusalKeeps {
		return released, Conflict, released
	}
	c := d.clone()
	if !p.Without.ConversionIsNumbered {
		c.at(from.Tag, from.ID).N = k
	}
	return c, Conflict, c
}
