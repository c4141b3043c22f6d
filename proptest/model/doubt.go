package model

import "slices"

// An answer that found nothing may be a deposed primary's. So before a client draws a conclusion from it, it reads
// the document with read concern linearizable (rule 27). Some answers count at once: a false refusal does no harm, a
// confirm loses only a place in the queue, and a handoff is followed by a release.

// linear reports whether reads are linearizable: one server needs none.
func (w *world) linear() bool { return len(w.members) > 1 && !w.cfg.protocol.Without.LinearizableRead }

// doubts reports whether a read must follow before the answer counts. After an attempt of unknown outcome it must
// anyway, if the document can tell what that one did.
func (w *world) doubts(c *client, ev event) bool {
	switch {
	case !slices.Contains([]Outcome{Lost, NotApplied, NotFound, Seen}, ev.outcome):
		return false
	case ev.op == opConfirm, ev.handsOver():
		return false
	case w.linear():
		return ev.op != opCheck || !ev.finds(ev.image)
	}
	switch ev.op {
	case opWrite, opWriteRelease, opDelete:
		return c.unknown
	case opRelease:
		return c.unknown && c.key != 0
	case opDetach:
		return c.unknown && c.key == c.id
	}
	return false
}

// resolve draws the conclusion from the read. If a linearizable one shows what the command has not found, the
// outcome is unknown: the holder goes on, or sends the command again.
func (w *world) resolve(c *client, ev event) {
	linear := ev.linear
	c.phase, c.before, ev.message = c.before, 0, c.last
	e, there := ev.image.guarded(ev.lease, false)
	switch {
	case ev.op == opWrite && there && e.N >= ev.k:
		w.verdict(c, ev.u, true)
		w.afterWrite(c, ev.message, ev.image)
	case !linear, !ev.finds(ev.image):
		ev.outcome = ev.nothing()
		w.conclude(c, ev)
	case c.phase == holding, c.phase == idle:
		c.last = message{}
	default:
		c.unknown = true
	}
}

// finds reports whether the document has what the command looks for.
func (m message) finds(d *Document) bool {
	switch m.op {
	case opAcquire, opTry:
		return d != nil
	case opRelease:
		e, there := d.Find(m.lease.Tag, m.lease.ID)
		return there && (e.Key == 0 || e.Fence == m.lease.Fence)
	case opResume, opTouch:
		_, there := d.Keyed(Token{m.lease.Tag, m.key})
		return there
	case opDowngrade:
		if _, there := d.Find(m.next.Tag, m.next.ID); there {
			return true
		}
	}
	_, there := d.guarded(m.lease, false)
	return there
}

// nothing is the outcome of the command if it finds nothing.
func (m message) nothing() Outcome {
	switch m.op {
	case opAcquire, opTry:
		return NotFound
	case opWrite, opWriteRelease:
		return NotApplied
	case opCheck:
		return Seen
	}
	return Lost
}

// The properties of what clients say. Each is named after the command and the word: "renew: lost".

// saysLost checks the word that the command's lease, or token, is lost: the committed document does not have it,
// and it was no release of its own that ended it. A late acquire may have brought the id of a released lease back, with
// another fencing token: that is not the lease.
func (w *world) saysLost(c *client, ev event) {
	m, property := ev.message, ev.op.String()+": lost"
	token := Token{m.lease.Tag, m.key}
	_, resumable := w.doc.Keyed(token)
	_, own := w.doc.guarded(m.lease, false)
	switch {
	case ev.outcome == Renewed, w.ghost.erased:
	case m.op == opDetach && c.key == c.id && resumable && !w.cfg.protocol.Without.NewIDAtResume: // nobody else made it known
		w.fail("detach: token thrown away", "client %d throws its token %d away, and it is good", m.from, m.key)
	case own, m.op != opRelease && m.finds(w.doc):
		w.fail(property, "client %d says that %d is lost, and it stands", m.from, m.lease.ID)
	case m.op != opResume && m.op != opTouch && w.grantOf(m.lease).released:
		w.fail(m.op.String()+": taken", "client %d says that %d is lost, and its own release has ended it", m.from, m.lease.ID)
	}
}

// saysEnded checks what a release, a delete or a clean-up says. If no attempt of unknown outcome came before one that
// found nothing, it says that the lease is lost. After one it says that the lock is released, if nobody else can have
// removed the entry.
func (w *world) saysEnded(c *client, ev event) {
	m := ev.message
	_, taken := ev.image.Keyed(Token{m.lease.Tag, c.key})
	cleans := m.lease.Fence == 0 || m.next.ID != 0
	e, there := w.doc.Find(m.lease.Tag, m.lease.ID)
	stands := there && (m.lease.Fence == 0 || e.Fence == m.lease.Fence) && !w.ghost.erased && !w.cfg.protocol.Without.NewIDAtHold
	switch {
	case cleans && stands && e.Key == 0:
		w.fail("clean-up: nothing", "client %d goes on to another document, and entry %d stands: it has two", m.from, e.ID)
	case cleans:
	case ev.outcome == Lost && (!c.unknown || c.key != 0 && taken):
		w.saysLost(c, ev)
	case ev.outcome == Lost && !w.noneTook(c, ev.image): // nobody knows
	case stands:
		w.fail(m.op.String()+": nil", "client %d says that %d has ended, and it stands", m.from, e.ID)
	case ev.outcome == Lost && !w.grantOf(m.lease).released && !w.ghost.erased:
		w.fail(m.op.String()+": nil, too late", "client %d says that it has released %d, and others removed it", m.from, m.lease.ID)
	}
}

// noneTook reports whether nobody else can have removed the entry: the server keeps others out, and no other user of
// its token has had it. That one would have it still, or would have left an entry, but not after a detach.
func (w *world) noneTook(c *client, d *Document) bool {
	if w.time >= c.was || c.key == c.id {
		return false
	}
	if c.key == 0 {
		return true
	}
	none := d != nil && d.Field == Ours && d.Lock.Fence >= c.fence
	for tag, e := range d.All() {
		none = none && (tag != c.tag || e.Fence <= c.fence || e.Until == 0)
	}
	return none
}

// saysMissing checks the word that there is no document.
func (w *world) saysMissing(ev event) {
	if ev.outcome == NotFound && w.doc != nil && w.ghost.born < ev.sent {
		w.fail("acquire: no document", "client %d says that there is no document, and there is", ev.from)
	}
}
