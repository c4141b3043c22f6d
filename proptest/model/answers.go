package model

import "slices"

// end finishes the client's lease. The client may ask for another one. A
// successor without an answer is told so.
func (w *world) end(c *client) {
	m := c.last
	w.finish(c)
	if m.second != 0 {
		w.unheard(&w.clients[m.to], m.second)
	}
}

// lost finishes a lease, or the use of a token, that the client takes for lost.
func (w *world) lost(c *client, ev event) {
	w.saysLost(ev)
	w.end(c)
}

// unheard tells a successor that its outcome is unknown: its id may be in the
// document, or come later. So it asks by the same id. A successor that waits in
// the document would do that anyway.
func (w *world) unheard(d *client, id ID) {
	if d.phase != promised || d.id != id {
		return
	}
	if w.cfg.protocol.Without.SuccessorAsksBySameID {
		w.settle(id)
		w.finish(d)
		return
	}
	w.ask(d)
	d.unknown = true
}

func (w *world) ask(d *client) {
	i := owner(d.id)
	d.phase, d.last = requesting, message{op: opAcquire, from: int8(i), lease: Lease{Tag: d.tag, ID: d.id}}
}

func (w *world) finish(c *client) {
	*c = client{phase: stopped, round: c.round + 1, home: c.home, tag: c.home}
	if c.round < w.cfg.rounds {
		c.phase = idle
	}
}

// unanswered is the client's state when no answer came.
func (w *world) unanswered(c *client) {
	c.awaits = false
	c.last.sent = 0
	switch c.phase {
	case requesting, writing, leaving, resuming, lowering:
		c.unknown = true
	case detaching:
		c.unknown = true
		w.handOut(c)
	case waiting, holding, idle:
		c.last = message{}
	}
}

// hold gives the client a lease after a grant. It is valid for a TTL from the
// send of the answered attempt.
func (w *world) hold(c *client, ev event, until int64) {
	e, ok := ev.image.Find(c.tag, c.id)
	if !ok || !e.Held() {
		w.fail("clients", "granted, but the image lacks entry %d", c.id)
		return
	}
	if c.phase != holding {
		c.newest = 0
		if n := len(ev.image.Lock.Done); n > 0 {
			c.newest = ev.image.Lock.Done[n-1]
		}
	}
	c.phase, c.seq, c.fence, c.unknown = holding, e.Seq, e.Fence, false
	c.valid = max(c.valid, until)
	c.sole = w.soleFence(ev.image, e)
	if !c.awaits {
		c.last = message{}
	}
}

// anchor is the end of the answered attempt's validity.
func (w *world) anchor(m message) int64 {
	if w.cfg.protocol.Without.AnchorAtSend {
		return w.time + w.cfg.ttl
	}
	return m.sent + w.cfg.ttl
}

// soleFence is lock.fence if the image has one entry only, and that keeps
// nobody out after its release; else 0.
func (w *world) soleFence(d *Document, own Entry) int64 {
	if own.Until != 0 && !w.cfg.protocol.Without.SetWithoutHold {
		return 0
	}
	n := 0
	for _, b := range d.Lock.Tags {
		n += len(b.Entries)
	}
	if n != 1 && !w.cfg.protocol.Without.SetWhereAlone {
		return 0
	}
	return d.Lock.Fence
}

// answer tells the client the outcome of the attempt that it waits for.
func (w *world) answer(ev event) {
	c := &w.clients[ev.from]
	c.awaits = false
	c.last.sent = 0
	switch {
	case ev.op == opRead:
		w.resolve(c, ev)
	case w.doubts(c, ev):
		c.before, c.phase = c.phase, resolving
	default:
		w.conclude(c, ev)
	}
}

func (w *world) conclude(c *client, ev event) {
	switch ev.op {
	case opAcquire, opTry, opTakeOver:
		w.acquired(c, ev, w.anchor(ev.message))
	case opClaim:
		if ev.outcome == Granted {
			w.hold(c, ev, w.anchor(ev.message))
		} else {
			w.end(c)
		}
	case opBatch:
		if ev.outcome == Granted {
			c.last = ev.as(opFind).unparsed()
		} else {
			w.end(c)
		}
	case opFind:
		w.found(c, ev)
	case opLook:
		w.looked(c, ev)
	case opKeep:
		w.kept(c, ev)
	case opConfirm:
		w.confirmed(c, ev, w.anchor(ev.message))
	case opRenew:
		if ev.outcome != Renewed {
			w.lost(c, ev)
			return
		}
		c.valid = max(c.valid, w.anchor(ev.message))
		c.last = message{}
	case opCheck:
		w.checked(c, ev)
	case opWrite, opWriteRelease:
		w.wrote(c, ev)
	case opRelease, opDelete:
		w.left(c, ev)
	case opHandoff, opSet:
		w.handed(c, ev)
	case opDetach:
		w.detached(c, ev)
	case opResume:
		w.resumed(c, ev)
	case opTouch:
		if ev.outcome != NotFound {
			w.saysLost(ev)
		}
		c.last = message{}
	case opConvert:
		w.lowered(c, ev)
	}
}

// acquired handles the answers of acquires, and of handoffs to a client without
// a known entry (it may have one by a late acquire). A refused client asks
// again by the same id.
func (w *world) acquired(c *client, ev event, until int64) {
	switch ev.outcome {
	case Granted:
		w.hold(c, ev, until)
	case Waits:
		e, _ := ev.image.Find(c.tag, c.id)
		c.phase, c.seq, c.unknown, c.last = waiting, e.Seq, false, message{}
	case Conflict:
		if ev.op == opTakeOver && (!c.unknown || w.cfg.protocol.Without.TakeOverDoubts) {
			w.ghost.spared = append(w.ghost.spared, c.id)
		}
		if (ev.op == opTry || ev.op == opTakeOver) && !c.unknown {
			w.end(c)
		} else if ev.handsOver() {
			w.ask(c)
		}
	default:
		w.saysMissing(ev)
		w.end(c)
	}
}

// confirmed handles the answers of confirms, and of handoffs to a client that
// waits.
func (w *world) confirmed(c *client, ev event, until int64) {
	tag := c.tag
	e, ok := ev.image.Find(tag, c.id)
	switch {
	case !ok:
		w.end(c)
	case e.Seq != c.seq && !w.cfg.protocol.Without.TicketSeq:
		c.phase, c.valid = leaving, 0
		c.last = message{op: opRelease, from: int8(owner(c.id)), lease: Lease{Tag: tag, ID: c.id}}
	default:
		if e.Seq != c.seq {
			w.fail("queue", "entry %d came back with seq %d, its ticket has %d", c.id, e.Seq, c.seq)
		}
		if e.Held() {
			w.hold(c, ev, until)
		} else if !c.awaits {
			c.last = message{}
		}
	}
}

func (w *world) checked(c *client, ev event) {
	rest := ev.image.remaining(ev.lease, w.cfg.ttl, w.cfg.tolerance, ev.now)
	if _, ok := ev.image.Find(ev.lease.Tag, c.id); ok && w.cfg.protocol.Without.RemainingFromExpiry {
		rest = w.cfg.ttl
	} else if _, ok := ev.image.guarded(ev.lease, false); !ok {
		w.lost(c, ev)
		return
	}
	c.valid = max(c.valid, ev.sent+rest)
	c.last = message{}
}

// settle records that the client has finished with the id, and knows that it is
// not in the document. The protocol allows one exception, a message under way
// that may bring the id back: an acquire, or a handoff whose holder gave up
// before it knew the outcome. Nor is the id of a resume's handle settled: the
// entry is the token's, and a late resume may bring the id back.
func (w *world) settle(id ID) {
	if w.cfg.protocol.Without.NewIDAtHold || w.cfg.protocol.Without.IDsAreNew {
		return
	}
	underWay := slices.Clone(w.flight) // what is not committed yet, and may be
	for _, ev := range w.members[w.leader].tail {
		underWay = append(underWay, ev.message)
	}
	for _, m := range underWay {
		_, stands := w.doc.guarded(m.lease, false)
		arrives := slices.Contains([]operation{opAcquire, opTry, opTakeOver, opClaim, opBatch, opResume}, m.op)
		if arrives && m.lease.ID == id || m.op == opConvert && m.next.ID == id && stands || m.handsOver() && m.second == id && stands {
			return
		}
	}
	if !slices.Contains(w.ghost.settled, id) {
		w.ghost.settled = append(w.ghost.settled, id)
	}
}

// settleUnseen settles the client's id, unless the image shows it: a late
// acquire may have brought it back under another fencing token.
func (w *world) settleUnseen(c *client, d *Document) {
	if _, there := d.Find(c.tag, c.id); !there {
		w.settle(c.id)
	}
}

// This file handles the answers that end a lease, or that give the outcome of
// an update.

// wrote handles the answers of guarded writes.
func (w *world) wrote(c *client, ev event) {
	switch {
	case ev.outcome == Applied:
		w.verdict(ev.u, true)
		w.afterWrite(c, ev.message, ev.image)
	case c.unknown && ev.op == opWrite: // nor did a read find its number: see resolve
		w.lost(c, ev)
	case c.unknown:
		w.resolveLast(c, ev)
	default:
		w.verdict(ev.u, false)
		w.lost(c, ev)
	}
}

// afterWrite continues after an applied write.
func (w *world) afterWrite(c *client, m message, d *Document) {
	if m.op.releases() {
		w.settleUnseen(c, d)
		w.end(c)
		return
	}
	c.phase, c.unknown, c.last = holding, false, message{}
}

// release makes a release the client's next command, with a handoff in front if
// there is a successor.
func (w *world) release(c *client, m message) {
	m.op, m.u, m.k, m.f, m.until, m.sent, m.parsed = opRelease, 0, 0, 0, 0, 0, 0
	if m.second != 0 {
		m.op = opHandoff
	}
	c.phase, c.unknown, c.valid, c.last = leaving, true, 0, m
}

// left handles the answers of releases: the lease has ended, whatever the
// answer is. After a delete of unknown outcome a document that stands was not
// deleted, or was made anew: a release follows, as after one that was refused.
func (w *world) left(c *client, ev event) {
	if ev.op == opDelete && (ev.outcome == NotApplied || ev.outcome == Lost && c.unknown && ev.image != nil) {
		w.release(c, c.last)
		return
	}
	w.saysEnded(c, ev)
	if _, there := ev.image.Find(ev.lease.Tag, c.id); c.key == 0 && (ev.outcome != Lost || !there && ev.op == opRelease) { // as the token's, or by a late acquire
		w.settle(c.id)
	}
	if next := c.last.next; next.ID != 0 { // the clean-up after a conversion goes on
		c.id, c.tag = next.ID, next.Tag
		c.last = message{op: opRelease, from: c.last.from, lease: next}
		c.unknown = false
		return
	}
	w.end(c)
}

func (w *world) handed(c *client, ev event) {
	if ev.outcome == NotApplied {
		w.handedNothing(c)
		return
	}
	if ev.u != 0 {
		w.verdict(ev.u, true)
	}
	if _, there := ev.after.Find(ev.lease.Tag, c.id); there {
		w.fail("handoff", "entry %d is still there after it was handed over", c.id)
	}
	w.inherits(ev)
	w.settleUnseen(c, ev.image)
	w.end(c)
}

// handedNothing handles a handoff that did not find the lease's entry. The
// update is then sent by itself, because the fence may have been another one. A
// release is sent by the id alone, because the id may be present under another
// fencing token.
func (w *world) handedNothing(c *client) {
	if c.last.u == 0 && w.cfg.protocol.Without.ReleaseFollows {
		w.settle(c.id)
		w.end(c)
		return
	}
	c.last = c.last.plain()
}

// inherits gives the successor its answer, if it still wants it. Its validity
// counts from the send of the handoff. After a compare-and-set it gets the rest
// of the lease.
func (w *world) inherits(ev event) {
	d := &w.clients[ev.to]
	until := w.anchor(ev.message)
	if ev.op == opSet && !w.cfg.protocol.Without.InheritedValidity {
		until = ev.until
	}
	switch {
	case d.id != ev.second:
	case d.phase == promised:
		w.acquired(d, ev, until)
	case ev.waits && (d.phase == waiting || d.phase == holding):
		w.confirmed(d, ev, until)
	}
}

// resolveLast finds the outcome of an update that releases, in an image.
func (w *world) resolveLast(c *client, ev event) {
	d, m := ev.image, c.last
	applied, known := d != nil && slices.Contains(d.Lock.Done, c.id), false
	if m.second != 0 && w.cfg.protocol.Without.VerdictFromDone {
		successor, _ := d.Find(w.clients[m.to].tag, m.second)
		applied, known = successor.Held(), true
	}
	switch {
	case applied:
		w.verdict(m.u, true)
		w.afterWrite(c, m, d)
	case known || w.provesAbsence(c, d):
		if !w.passes(c, d) {
			w.verdict(m.u, false)
		}
		w.end(c)
	default:
		w.release(c, m)
	}
}

// passes reports whether an old copy that an outside writer has put back passes for the lock: it is older than the
// lease's end, a later grant has its fence, and no image shows that.
func (w *world) passes(c *client, d *Document) bool {
	return d != nil && d.Lock.Fence >= c.fence && c.fence <= w.ghost.undone
}

// provesAbsence reports whether an id that is not in done was never put there.
// This holds only while the id that was newest at the grant is still in done, and
// only if the lock is not older than the lease. If there was none, done may have been
// erased and made anew since.
func (w *world) provesAbsence(c *client, d *Document) bool {
	if w.cfg.protocol.Without.DoneNeedsWitness {
		return true
	}
	if d == nil || d.Field != Ours || d.Lock.Fence < c.fence {
		return false
	}
	if c.newest != 0 {
		return slices.Contains(d.Lock.Done, c.newest) || w.cfg.protocol.Without.WitnessIsThere
	}
	return w.cfg.protocol.Without.EmptyProvesNothing && len(d.Lock.Done) < w.cfg.protocol.done()
}
