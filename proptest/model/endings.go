package model

import "slices"

// This file handles the answers that end a lease, or that give the outcome of
// an update.

// wrote handles the answers of guarded writes.
func (w *world) wrote(c *client, ev event) {
	switch {
	case ev.outcome == Applied:
		w.verdict(c, ev.u, true)
		w.afterWrite(c, ev.message, ev.image)
	case c.unknown && ev.op == opWrite: // nor did a read find its number: see resolve
		w.lost(c, ev)
	case c.unknown:
		w.resolveLast(c, ev)
	default:
		w.verdict(c, ev.u, false)
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
// deleted, or was made anew: a release follows.
func (w *world) left(c *client, ev event) {
	if ev.op == opDelete && ev.outcome == Lost && c.unknown && ev.image != nil {
		w.release(c, c.last)
		return
	}
	w.saysEnded(c, ev)
	if c.key == 0 { // else it may be present as the token's, by a late resume
		w.settle(c.id)
	}
	if next := c.last.next; next.ID != 0 { // the clean-up after a downgrade goes on
		c.id, c.tag = next.ID, next.Tag
		c.last = message{op: opRelease, from: c.last.from, lease: next}
		c.unknown = false
		return
	}
	w.end(c)
}

// handed handles the answers of handoffs.
func (w *world) handed(c *client, ev event) {
	if ev.outcome == NotApplied {
		w.handedNothing(c)
		return
	}
	if ev.u != 0 {
		w.verdict(c, ev.u, true)
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
	applied, known := finished(d, c.id), false
	if m.second != 0 && w.cfg.protocol.Without.VerdictFromDone {
		successor, _ := d.Find(w.clients[m.to].tag, m.second)
		applied, known = successor.Held(), true
	}
	switch {
	case applied:
		w.verdict(c, m.u, true)
		w.afterWrite(c, m, d)
	case known || w.provesAbsence(c, d):
		w.verdict(c, m.u, false)
		w.end(c)
	default:
		w.release(c, m)
	}
}

// finished reports whether done shows that the lease ended with a write.
func finished(d *Document, id ID) bool {
	return d != nil && slices.Contains(d.Lock.Done, id)
}

// provesAbsence reports whether an id that is not in done was never put there.
// This holds only while the id that was newest at the grant is still in done
// (or, if there was none, while done is not full), and only if the lock is not
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
