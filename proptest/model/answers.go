package model

import "slices"

// event is one command as the server executed it.
type event struct {
	message
	now           int64
	before, after *Document
	outcome       Outcome
	image         Image
}

// request is what client i's program asks for under the id.
func (w *world) request(i int, id ID) Request {
	return Request{
		Table: w.cfg.table(i), Tag: w.cfg.tags[i], ID: id,
		TTL: w.cfg.ttl, WaitTTL: w.cfg.waitTTL, Tolerance: w.cfg.tolerance,
	}
}

// execute runs the attempt on the server, at the time when that parsed it.
func (w *world) execute(m message) event {
	now := w.now()
	if m.parsed != 0 {
		now = m.parsed
	}
	p, d := w.cfg.protocol, w.doc
	ev := event{message: m, now: now, before: d}
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
	case opReleaseTwo:
		ev.after, ev.outcome, ev.image = p.ReleaseTwo(d, m.lease, w.secondLease(m), now)
	case opHandoff:
		ev.after, ev.outcome, ev.image = p.Handoff(d, m.lease, w.request(int(m.to), m.second), now)
	case opHandoffWaiting:
		ev.after, ev.outcome, ev.image = p.HandoffToWaiting(d, m.lease, w.request(int(m.to), m.second), now)
	case opSet:
		ev.after, ev.outcome, ev.image = p.CompareAndSet(d, m.lease, m.second, "", m.f, Ride{m.k, m.u}, now)
	case opRead, opCheck:
		ev.after, ev.outcome, ev.image = p.Read(d, now)
	}
	w.doc = ev.after
	return ev
}

func (w *world) secondLease(m message) Lease { return Lease{Tag: w.cfg.tags[m.to], ID: m.second} }

// start is what sending the attempt does to its client, and to the one that
// it promises the lease to.
func (w *world) start(m message) message {
	m.sent, m.parsed = w.time, 0
	c := &w.clients[m.from]
	if m.op == opRead {
		return m
	}
	repeat := m.op == c.last.op && m.lease.ID == c.last.lease.ID && m.second == c.last.second && m.k == c.last.k
	instead := m.op == opWrite && c.last.op == opSet // the same update, under the same number
	if !repeat && !instead {
		c.unknown = false
	}
	c.last = m
	switch m.op {
	case opAcquire, opTry:
		c.phase, c.id = requesting, m.lease.ID
	case opWrite:
		c.phase, c.writes = writing, m.k
	}
	if m.op.gives() {
		c.phase = leaving
		if !w.cfg.protocol.Without.BeliefEndsAtSend {
			c.valid = 0
		}
	}
	switch m.op {
	case opHandoff, opSet:
		d := &w.clients[m.to]
		if d.phase == idle {
			d.phase, d.id = promised, m.second
		}
	case opReleaseTwo, opRelease:
		w.breakPromise(m)
	}
	return m
}

// breakPromise lets the client that waits for a handoff look elsewhere.
func (w *world) breakPromise(m message) {
	if d := &w.clients[m.to]; m.second != 0 && d.phase == promised && d.id == m.second {
		w.end(d)
	}
}

// end finishes the client's lease. It may ask for another one.
func (w *world) end(c *client) {
	*c = client{phase: gone, round: c.round + 1}
	if c.round < w.cfg.rounds {
		c.phase = idle
	}
}

// unanswered is what the client knows when no answer came.
func (w *world) unanswered(c *client) {
	c.awaits = false
	c.last.sent = 0
	switch c.phase {
	case requesting, writing, leaving:
		c.unknown = true
	case waiting, holding:
		c.last = message{}
	}
}

// hold is what a grant makes the client believe: for a TTL from the send of
// the attempt that was answered.
func (w *world) hold(c *client, ev event, until int64) {
	tag := w.cfg.tags[owner(c.id)]
	e, ok := ev.image.Doc.Find(tag, c.id)
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
	c.sole = soleFence(ev.image.Doc)
	if !c.awaits {
		c.last = message{}
	}
}

// anchor is where the validity of the answered attempt ends.
func (w *world) anchor(m message) int64 {
	if w.cfg.protocol.Without.AnchorAtSend {
		return w.time + w.cfg.ttl
	}
	return m.sent + w.cfg.ttl
}

// soleFence is lock.fence where the image shows one entry only, else 0.
func soleFence(d *Document) int64 {
	n := 0
	for _, b := range d.Lock.Tags {
		n += len(b.Entries)
	}
	if n != 1 {
		return 0
	}
	return d.Lock.Fence
}

// answer tells the client what became of the attempt that it waits for.
func (w *world) answer(ev event) {
	c := &w.clients[ev.from]
	c.awaits = false
	c.last.sent = 0
	switch ev.op {
	case opAcquire, opTry:
		w.acquired(c, ev)
	case opConfirm:
		w.confirmed(c, ev)
	case opRenew:
		if ev.outcome != Renewed {
			w.end(c)
			return
		}
		c.valid = max(c.valid, w.anchor(ev.message))
		c.sole, c.last = soleFence(ev.image.Doc), message{}
	case opCheck:
		w.checked(c, ev)
	case opWrite, opWriteRelease:
		w.wrote(c, ev)
	case opRelease, opReleaseTwo:
		w.left(c, ev)
	case opHandoff, opHandoffWaiting, opSet:
		w.handed(c, ev)
	case opRead:
		w.resolve(c, ev)
	}
}

func (w *world) acquired(c *client, ev event) {
	switch ev.outcome {
	case Granted:
		w.hold(c, ev, w.anchor(ev.message))
	case Waits:
		e, _ := ev.image.Doc.Find(ev.lease.Tag, c.id)
		c.phase, c.seq, c.unknown, c.last = waiting, e.Seq, false, message{}
	case Conflict:
		if ev.op == opTry && !c.unknown {
			w.end(c)
		}
	default:
		w.end(c)
	}
}

func (w *world) confirmed(c *client, ev event) {
	e, ok := ev.image.Doc.Find(ev.lease.Tag, c.id)
	switch {
	case !ok:
		w.end(c)
	case e.Seq != c.seq && !w.cfg.protocol.Without.TicketSeq:
		c.phase, c.valid = leaving, 0
		c.last = message{op: opRelease, from: ev.from, lease: Lease{Tag: ev.lease.Tag, ID: c.id}}
	case e.Held():
		w.ordered(c, e)
		w.hold(c, ev, w.anchor(ev.message))
	default:
		w.ordered(c, e)
		c.last = message{}
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

// settle notes that the client has done with the id, and knows that it is not
// in the document: an acquire of it that is still under way is the exception
// that the protocol allows.
func (w *world) settle(id ID) {
	for _, m := range w.flight {
		if m.lease.ID == id && (m.op == opAcquire || m.op == opTry) {
			return
		}
	}
	if !slices.Contains(w.ghost.settled, id) {
		w.ghost.settled = append(w.ghost.settled, id)
	}
}

// settleUnseen settles the client's id, unless the image shows it: a late
// acquire may have brought it back under another token.
func (w *world) settleUnseen(c *client, d *Document) {
	if _, there := d.Find(w.cfg.tags[owner(c.id)], c.id); !there {
		w.settle(c.id)
	}
}
