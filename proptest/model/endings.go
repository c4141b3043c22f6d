package model

import "slices"

// This file is what clients make of the answers that end a lease, or that
// say what became of an update.

// wrote handles the answers of guarded writes.
func (w *world) wrote(c *client, ev event) {
	switch {
	case ev.outcome == Applied:
		w.verdict(c, ev.u, true)
		w.afterWrite(c, ev.message, ev.image.Doc)
	case c.unknown:
		c.phase = resolving
	default:
		w.verdict(c, ev.u, false)
		w.lostWrite(c, ev.message)
	}
}

// afterWrite goes on after a write that was applied.
func (w *world) afterWrite(c *client, m message, d *Document) {
	switch {
	case m.op == opWriteRelease:
		w.settleUnseen(c, d)
		w.end(c)
	case m.second != 0: // the fallback of a handoff: its update is done
		c.phase, c.unknown = falling, false
		c.last.u, c.last.k = 0, 0
	default:
		c.phase, c.unknown, c.last = holding, false, message{}
		c.sole = soleFence(d)
	}
}

// lostWrite goes on after a write that was not applied, or that nobody knows
// about: the lease is lost.
func (w *world) lostWrite(c *client, m message) {
	if m.second != 0 {
		w.release(c, m.as(opReleaseTwo))
		return
	}
	w.end(c)
}

// release makes the release of the message the client's next command.
func (w *world) release(c *client, m message) {
	c.phase, c.unknown, c.valid = leaving, false, 0
	m.sent, m.parsed = 0, 0
	c.last = m
	if m.op == opReleaseTwo && w.cfg.protocol.Without.ReleaseBothAtOnce {
		c.last.op, c.last.lease = opRelease, w.secondLease(m)
	}
}

// left handles the answers of releases: whatever they say, it is over.
func (w *world) left(c *client, ev event) {
	if ev.lease.ID != c.id { // the first of two releases that should be one
		own := Lease{w.cfg.tags[ev.from], c.id, c.fence}
		c.last = message{op: opRelease, from: ev.from, to: ev.to, lease: own}
		w.settle(ev.lease.ID)
		return
	}
	w.settle(c.id)
	if ev.op == opReleaseTwo {
		w.settle(ev.second)
	}
	w.end(c)
}

// handed handles the answers of handoffs.
func (w *world) handed(c *client, ev event) {
	without := w.cfg.protocol.Without
	switch ev.outcome {
	case HandedOver:
		if ev.u != 0 {
			w.verdict(c, ev.u, true)
		}
		if _, there := ev.after.Find(ev.lease.Tag, c.id); there {
			w.fail("handoff", "entry %d is still there after it was handed over", c.id)
		}
		until := w.anchor(ev.message)
		if ev.op == opSet {
			until = w.inherited(ev)
		}
		w.pass(c, ev, until)
	case NotPossible:
		if ev.op == opHandoff || without.WaitingKeepsPlace {
			w.release(c, ev.as(opReleaseTwo))
		} else {
			w.release(c, ev.as(opRelease))
		}
	case NotApplied:
		switch {
		case !c.unknown:
			c.phase = falling
		case without.LookForSecond:
			w.over(c, ev.message)
		default:
			c.phase = resolving
		}
	default: // lost
		w.over(c, ev.message)
	}
}

// pass lets the second client hold the lease that it was handed, if it still
// wants it, and ends the first one's.
func (w *world) pass(c *client, ev event, until int64) {
	d := &w.clients[ev.to]
	if d.id == ev.second && (d.phase == promised || d.phase == waiting || d.phase == holding) {
		w.hold(d, ev, until)
	}
	w.settleUnseen(c, ev.image.Doc)
	w.end(c)
}

// inherited is the validity that a compare-and-set handoff passes on: what was
// left of the first lease's.
func (w *world) inherited(ev event) int64 {
	if w.cfg.protocol.Without.InheritedValidity {
		return w.anchor(ev.message)
	}
	return ev.until
}

// over ends a handoff that nothing came of.
func (w *world) over(c *client, m message) {
	w.breakPromise(m)
	if m.op != opHandoffWaiting {
		w.settle(m.second)
	}
	w.end(c)
}

// resolve finds out from an image what became of an unknown attempt.
func (w *world) resolve(c *client, ev event) {
	d, m := ev.image.Doc, c.last
	e, there := d.guarded(ev.lease, false)
	switch m.op {
	case opWrite:
		if there && e.N >= m.k {
			w.verdict(c, m.u, true)
			w.afterWrite(c, m, d)
			return
		}
		if m.second != 0 && finished(d, c.id) { // the handoff came first
			w.verdict(c, m.u, true)
			second, _ := d.Find(ev.lease.Tag, m.second)
			w.passOrEnd(c, ev, second.Held())
			return
		}
		w.lostWrite(c, m)
	case opWriteRelease:
		switch {
		case finished(d, c.id):
			w.verdict(c, m.u, true)
			w.afterWrite(c, m, d)
		case w.provesAbsence(c, d):
			w.verdict(c, m.u, false)
			w.end(c)
		default:
			w.release(c, m.as(opRelease))
		}
	case opSet:
		if there {
			w.resolveStanding(c, m, d)
			return
		}
		w.resolveSet(c, ev)
	}
}

// resolveStanding: the first entry is still there. While lock.fence is as it
// was, the handoff may still be applied: it is sent again.
func (w *world) resolveStanding(c *client, m message, d *Document) {
	if d.Lock.Fence > m.f {
		c.phase, c.unknown = falling, false
		return
	}
	c.phase = leaving
}

// resolveSet: the first entry has gone, by the handoff or otherwise.
func (w *world) resolveSet(c *client, ev event) {
	d, m := ev.image.Doc, c.last
	second, held := d.Find(ev.lease.Tag, m.second)
	held = held && second.Held()
	if m.u != 0 {
		switch {
		case w.cfg.protocol.Without.VerdictFromDone:
			w.verdict(c, m.u, held)
		case finished(d, c.id):
			w.verdict(c, m.u, true)
		case w.provesAbsence(c, d):
			w.verdict(c, m.u, false)
		default:
			w.release(c, m.as(opReleaseTwo))
			return
		}
	}
	w.passOrEnd(c, ev, held)
}

func (w *world) passOrEnd(c *client, ev event, held bool) {
	if held {
		w.pass(c, ev, w.inherited(ev))
		return
	}
	w.over(c, c.last)
}

// finished reports whether done says that the lease ended with a write.
func finished(d *Document, id ID) bool {
	return d != nil && slices.Contains(d.Lock.Done, id)
}

// provesAbsence reports whether an id that is not in done was never put
// there: only while the id that was newest at the grant is still there (if
// there was none, while done is not full), and only in a lock that is not
// older than the lease.
func (w *world) provesAbsence(c *client, d *Document) bool {
	if w.cfg.protocol.Without.DoneNeedsWitness {
		return true
	}
	if d == nil || d.Field != Ours || d.Lock.Fence < c.fence {
		return false
	}
	if c.newest != 0 {
		return slices.Contains(d.Lock.Done, c.newest)
	}
	return len(d.Lock.Done) < doneCap
}
