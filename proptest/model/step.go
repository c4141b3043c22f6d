package model

import (
	"cmp"
	"fmt"
	"slices"
)

type note struct {
	message message
	outcome Outcome
	fate    string
}

// step returns the world after the action. A violation, if any, is in the
// world.
func (w *world) step(a action) world {
	n := w.copy()
	n.note = note{}
	switch a.kind {
	case doTick:
		n.time += w.cfg.tick
		n.expireParsed()
	case doStep:
		n.steps--
		n.offsets[a.client] += int64(a.index) * min(w.cfg.tick, w.cfg.tolerance)
	case doPrompt, doSilent, doDelay, doParsed, doPend:
		n.send(a, w.options(int(a.client))[a.index])
	case doArrive:
		n.arrive(int(a.index), int(a.at))
	case doTimeout:
		n.unanswered(&n.clients[a.client])
	case doQuit:
		n.end(&n.clients[a.client])
	case doForeign:
		n.foreign(a.index)
	case doBreak:
		n.breakEntry(a.index)
	case doCommit:
		n.commit()
	case doElect:
		n.elect(int(a.client), int(a.index))
	case doStepDown:
		n.members[a.client] = member{known: n.members[a.client].known} // and what it has not committed is rolled back
	case doLearn:
		n.members[a.client].known = n.doc
	}
	if n.broken.Property == "" {
		n.checkState()
	}
	return n
}

// send sends an attempt with the fate that the action gives.
func (w *world) send(a action, m message) {
	m = w.start(m)
	switch a.kind {
	case doDelay, doParsed:
		w.faults--
		w.note = note{m, "on its way", "not executed yet"}
		if a.kind == doParsed {
			m.parsed = w.nowOf(w.clockOf(m, w.leader))
			w.note.outcome = "parsed"
		}
		w.flight = append(w.flight, m)
		w.clients[m.from].awaits = true
		return
	case doSilent, doPend:
		w.faults--
	}
	ev, answered := w.serve(m, int(a.at), a.kind == doPend)
	w.note = note{m, ev.outcome, "answered"}
	switch c := &w.clients[m.from]; {
	case a.kind == doSilent:
		w.note.fate = "answer lost"
		w.unanswered(c)
	case answered:
		w.answer(ev)
	case a.kind == doPend:
		w.note.fate = "not committed yet"
		c.awaits = true
	default:
		w.faults--
		w.note.fate = "never committed"
		w.unanswered(c)
	}
}

// arrive has a member execute an attempt that was on its way.
func (w *world) arrive(i, at int) {
	m := w.flight[i]
	c, awaited := &w.clients[m.from], w.awaited(m)
	w.flight = slices.Delete(w.flight, i, i+1)
	c.awaits = c.awaits && !awaited
	ev, answered := w.serve(m, at, false)
	w.note = note{m, ev.outcome, "late, no client waits"}
	switch {
	case awaited && answered:
		w.note.fate = "late, answered"
		w.answer(ev)
	case !answered:
		w.note.fate = "late, never committed"
		c.awaits = c.awaits || awaited
	}
}

// tell describes the action that led to this world.
func (w *world) tell(a action) string {
	text := fmt.Sprintf("%v: %s, %s -> %v", w.note.message, w.note.outcome, w.note.fate, w.doc)
	if int(a.at) != w.leader {
		text = fmt.Sprintf("%v, at member %d, which is deposed: %s, %s", w.note.message, a.at, w.note.outcome, w.note.fate)
	}
	special := map[kind]string{
		doTick:     "tick",
		doStep:     fmt.Sprintf("the server's clock %d steps by %d", a.client, a.index),
		doTimeout:  fmt.Sprintf("client %d: gives up waiting for the answer", a.client),
		doQuit:     fmt.Sprintf("client %d: gives up its command", a.client),
		doForeign:  fmt.Sprintf("outside writer: %s -> %v", w.note.fate, w.doc),
		doBreak:    fmt.Sprintf("operator: %s -> %v", w.note.fate, w.doc),
		doCommit:   fmt.Sprintf("member %d commits -> %v", w.leader, w.doc),
		doElect:    fmt.Sprintf("member %d is elected, with %d of the leader's commands that were not committed", a.client, a.index),
		doStepDown: fmt.Sprintf("member %d steps down, and rolls back", a.client),
		doLearn:    fmt.Sprintf("member %d hears what is committed", a.client),
	}[a.kind]
	text = cmp.Or(special, text)
	return fmt.Sprintf("t=%d now=%d  %s", w.time, w.now(), text)
}

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
	case ev.op == opConfirm, ev.op == opClaim, ev.op == opBatch, ev.op == opLook, ev.op == opFind, ev.handsOver():
		return false
	case w.linear():
		return ev.op != opCheck || !ev.finds(ev.image)
	}
	switch ev.op {
	case opWrite, opWriteRelease, opDelete:
		return c.unknown
	case opRelease:
		return c.unknown && (c.key != 0 || w.mayBreak() && ev.lease.Fence != 0) // else the read would show nothing
	case opDetach:
		return c.unknown && c.key == c.id
	}
	return false
}

// mayBreak reports whether anybody may end a live entry of another one.
func (w *world) mayBreak() bool { return w.cfg.breaks > 0 || w.cfg.takes }

// resolve draws the conclusion from the read. If a linearizable one shows what the command has not found, the
// outcome is unknown: the holder goes on, or sends the command again.
func (w *world) resolve(c *client, ev event) {
	linear := ev.linear
	c.phase, c.before, ev.message = c.before, 0, c.last
	e, there := ev.image.guarded(ev.lease, false)
	switch {
	case ev.op == opWrite && there && w.cfg.protocol.written(ev.image, e, ev.k):
		w.verdict(ev.u, true)
		w.afterWrite(c, ev.message, ev.image)
	case !linear, !ev.finds(ev.image):
		ev.outcome = ev.nothing(ev.image)
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
	case opAcquire, opTry, opTakeOver:
		return d != nil
	case opRelease:
		e, there := d.Find(m.lease.Tag, m.lease.ID)
		return there && (e.Key == 0 || e.Fence == m.lease.Fence)
	case opResume, opTouch:
		e, there := d.Keyed(Token{m.lease.Tag, m.key})
		return there && (m.matches(d) || e.ID == m.lease.ID)
	case opConvert:
		if _, there := d.Find(m.next.Tag, m.next.ID); there {
			return true
		}
	}
	_, there := d.guarded(m.lease, false)
	return there
}

// nothing is the outcome of the command if it finds nothing in the document.
func (m message) nothing(d *Document) Outcome {
	switch m.op {
	case opAcquire, opTry, opTakeOver:
		return NotFound
	case opWrite, opWriteRelease:
		return NotApplied
	case opCheck:
		return Seen
	case opResume, opTouch:
		if _, there := d.Keyed(Token{m.lease.Tag, m.key}); there {
			return NotFound
		}
		return d.unkeyed()
	}
	return Lost
}

// The properties of what clients say. Each is named after the command and the word: "renew: lost".

// saysLost checks the word that the command's lease, or token, is lost: the committed document does not have it,
// and it was no release of its own that ended it. A late acquire may have brought the id of a released lease back, with
// another fencing token: that is not the lease.
func (w *world) saysLost(ev event) {
	m, property := ev.message, ev.op.String()+": lost"
	token := Token{m.lease.Tag, m.key}
	_, resumable := w.doc.Keyed(token)
	_, own := w.doc.guarded(m.lease, false)
	switch {
	case ev.outcome == Renewed, w.ghost.erased:
	case m.op == opDetach && w.grantOf(m.lease).detached:
		w.fail("detach: taken", "client %d says that %d is lost, and it has left it to its token", m.from, m.lease.ID)
	case own, (m.op == opResume || m.op == opTouch) && resumable, m.op != opRelease && m.finds(w.doc):
		w.fail(property, "client %d says that %d is lost, and it stands", m.from, m.lease.ID)
	case m.op != opResume && m.op != opTouch && w.grantOf(m.lease).released:
		w.fail(m.op.String()+": taken", "client %d says that %d is lost, and its own release has ended it", m.from, m.lease.ID)
	}
}

// saysUnmatched checks the word that the caller's filter misses the document: no attempt has taken the entry.
func (w *world) saysUnmatched(ev event) {
	if e, there := w.doc.Keyed(Token{ev.lease.Tag, ev.key}); there && e.ID == ev.lease.ID {
		w.fail("resume: not found", "client %d says that the document does not match, and has its entry %d", ev.from, e.ID)
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
		w.saysLost(ev)
	case ev.outcome == Lost && !w.noneTook(c, m.op, ev.image): // nobody knows
	case stands:
		w.fail(m.op.String()+": nil", "client %d says that %d has ended, and it stands", m.from, e.ID)
	case m.op == opDelete && ev.image == nil && w.grantOf(m.lease).broken: // a limit: who took the lock over may have deleted it, too
	case ev.outcome == Lost && !w.grantOf(m.lease).released && !w.ghost.erased:
		w.fail(m.op.String()+": nil, too late", "client %d says that it has released %d, and others removed it", m.from, m.lease.ID)
	}
}

// noneTook reports whether nobody else can have removed the entry: the server keeps others out, no operator has, and no
// other user of its token has had it. That one would have it still, or would have left an entry, but not after a detach. A
// document that is gone has its `broken` no more.
func (w *world) noneTook(c *client, op operation, d *Document) bool {
	gone := d == nil && op == opRelease && (w.linear() || w.mayBreak()) // as the read has shown
	broken := gone && !w.cfg.protocol.Without.GoneIsDoubted || d != nil && d.Lock.Broken >= c.fence
	if w.time >= c.was || c.key == c.id || broken && !w.cfg.protocol.Without.BrokenIsRead {
		return false
	}
	if c.key == 0 {
		return d == nil || d.Lock.Fence >= c.fence
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
