package model

import "slices"

// event is one command, as the server executed it.
type event struct {
	message
	now           int64
	before, after *Document
	outcome       Outcome
	image         Image
}

// request is client i's request under the id.
func (w *world) request(i int, id ID) Request {
	return Request{
		Rules: w.cfg.rules(i), Tag: w.cfg.tags[i], ID: id,
		TTL: w.cfg.ttl, WaitTTL: w.cfg.waitTTL, Tolerance: w.cfg.tolerance, Hold: w.cfg.hold,
	}
}

// execute executes the attempt at the server, at the time of its parsing.
func (w *world) execute(m message) event {
	now := w.now()
	if m.parsed != 0 {
		now = m.parsed
	}
	p, d := w.cfg.protocol, w.doc
	ev := event{message: m, now: now, before: d}
	if m.rest > 0 && m.op.releases() {
		d = d.heldFrom(m.lease, now+m.rest)
	}
	switch m.op {
	case opAcquire:
		ev.after, ev.outcome, ev.image = p.Acquire(d, w.request(int(m.from), m.lease.ID), Queue, now)
	case opTry:
		ev.after, ev.outcome, ev.image = p.Acquire(d, w.request(int(m.from), m.lease.ID), Try, now)
	case opConfirm:
		ev.after, ev.outcome, ev.image = p.Confirm(d, w.request(int(m.from), m.lease.ID), now)
	case opRenew:
		ev.after, ev.outcome, ev.image = p.Renew(d, m.lease, w.cfg.ttl, w.cfg.tolerance, now)
	case opWrite:
		ev.after, ev.outcome, ev.image = p.Write(d, m.lease, m.k, m.u, now)
	case opWriteRelease:
		ev.after, ev.outcome, ev.image = p.WriteAndRelease(d, m.lease, m.u, now)
	case opRelease:
		ev.after, ev.outcome, ev.image = p.Release(d, m.lease, now)
	case opHandoff:
		successor := Successor{w.request(int(m.to), m.second), m.waits}
		if m.u != 0 {
			ev.after, ev.outcome, ev.image = p.WriteAndHandOff(d, m.lease, m.u, successor, now)
		} else {
			ev.after, ev.outcome, ev.image = p.Handoff(d, m.lease, successor, now)
		}
	case opSet:
		ev.after, ev.outcome, ev.image = p.CompareAndSet(d, m.lease, m.u, w.request(int(m.to), m.second), m.f, now)
	case opRead, opCheck:
		ev.after, ev.outcome, ev.image = p.Read(d, now)
	case opDetach, opResume, opTouch, opDowngrade:
		w.executeTransform(&ev)
	}
	w.doc = ev.after
	return ev
}

// start applies the effects of sending the attempt to its client, and to the
// successor of a handoff.
func (w *world) start(m message) message {
	m.sent, m.parsed = w.time, 0
	c := &w.clients[m.from]
	if m.op == opRead {
		return m
	}
	if !m.repeats(c.last) {
		c.unknown = false
	}
	c.last = m
	switch m.op {
	case opAcquire, opTry:
		c.phase, c.id = requesting, m.lease.ID
	case opWrite:
		c.phase, c.writes = writing, m.k
	}
	w.startTransform(c, m)
	if m.op.releases() {
		c.phase = leaving
		if !w.cfg.protocol.Without.ValidityEndsAtSend {
			c.valid = 0
		}
	}
	if d := &w.clients[m.to]; m.handsOver() && !m.waits && (d.phase == idle || d.phase == requesting) {
		d.phase, d.id, d.last, d.unknown = promised, m.second, message{}, false
	}
	return m
}

// repeats reports whether the attempt repeats the last one: the same command,
// or another one that releases the same lease with the same update.
func (m message) repeats(last message) bool {
	same := m.op == last.op || m.op.releases() && last.op.releases()
	return same && m.lease.ID == last.lease.ID && m.k == last.k && m.u == last.u
}

// end finishes the client's lease. The client may ask for another one. A
// successor without an answer is told so.
func (w *world) end(c *client) {
	m := c.last
	w.finish(c)
	if m.second != 0 {
		w.unheard(&w.clients[m.to], m.second)
	}
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

// ask makes a client that has an id and no answer ask.
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
	e, ok := ev.image.Doc.Find(c.tag, c.id)
	if !ok || !e.Held() {
		w.fail("clients", "granted, but the image lacks entry %d", c.id)
		return
	}
	if c.phase != holding {
		c.newest = 0
		if n := len(ev.image.Doc.Lock.Done); n > 0 {
			c.newest = ev.image.Doc.Lock.Done[n-1]
		}
	}
	c.phase, c.seq, c.fence, c.unknown = holding, e.Seq, e.Fence, false
	c.valid = max(c.valid, until)
	c.sole = w.soleFence(ev.image.Doc, e)
	c.keeps = ev.sent + w.cfg.hold
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
	switch ev.op {
	case opAcquire, opTry:
		w.acquired(c, ev, w.anchor(ev.message))
	case opConfirm:
		w.confirmed(c, ev, w.anchor(ev.message))
	case opRenew:
		if ev.outcome != Renewed {
			w.end(c)
			return
		}
		c.valid = max(c.valid, w.anchor(ev.message))
		c.last = message{}
	case opCheck:
		w.checked(c, ev)
	case opWrite, opWriteRelease:
		w.wrote(c, ev)
	case opRelease:
		w.left(c, ev)
	case opHandoff, opSet:
		w.handed(c, ev)
	case opRead:
		w.resolve(c, ev)
	case opDetach:
		w.detached(c, ev)
	case opResume:
		w.resumed(c, ev)
	case opTouch:
		c.last = message{}
	case opDowngrade:
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
		e, _ := ev.image.Doc.Find(c.tag, c.id)
		c.phase, c.seq, c.unknown, c.last = waiting, e.Seq, false, message{}
	case Conflict:
		if ev.op == opTry && !c.unknown {
			w.end(c)
		} else if ev.handsOver() {
			w.ask(c)
		}
	default:
		w.end(c)
	}
}

// confirmed handles the answers of confirms, and of handoffs to a client that
// waits.
func (w *world) confirmed(c *client, ev event, until int64) {
	tag := c.tag
	e, ok := ev.image.Doc.Find(tag, c.id)
	switch {
	case !ok:
		w.end(c)
	case e.Seq != c.seq && !w.cfg.protocol.Without.TicketSeq:
		c.phase, c.valid = leaving, 0
		c.last = message{op: opRelease, from: int8(owner(c.id)), lease: Lease{Tag: tag, ID: c.id}}
	case e.Held():
		w.ordered(c, e)
		w.hold(c, ev, until)
	default:
		w.ordered(c, e)
		if !c.awaits {
			c.last = message{}
		}
	}
}

func (w *world) checked(c *client, ev event) {
	if _, ok := ev.image.Doc.Find(ev.lease.Tag, c.id); ok && w.cfg.protocol.Without.RemainingFromExpiry {
		c.valid = max(c.valid, ev.sent+w.cfg.ttl)
		c.last = message{}
		return
	}
	if _, ok := ev.image.Doc.guarded(ev.lease, false); !ok {
		w.end(c)
		return
	}
	c.valid = max(c.valid, ev.sent+ev.image.Remaining(ev.lease, w.cfg.ttl, w.cfg.tolerance))
	c.last = message{}
}

// settle records that the client has finished with the id, and knows that it is
// not in the document. The protocol allows one exception, a message under way
// that may bring the id back: an acquire, or a handoff whose holder gave up
// before it knew the outcome. Nor is the id of a resume's handle settled: the
// entry is the token's, and a late resume may bring the id back.
func (w *world) settle(id ID) {
	if w.cfg.protocol.Without.NewIDAtHold {
		return
	}
	for _, m := range w.flight {
		_, stands := w.doc.guarded(m.lease, false)
		if m.lease.ID == id && (m.op == opAcquire || m.op == opTry || m.op == opResume) || m.op == opDowngrade && m.next.ID == id && stands || m.handsOver() && m.second == id && stands {
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
