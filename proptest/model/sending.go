package model

// This file sends attempts: their execution at the server, and what a send alone
// changes.

// event is one command, as a server executed it.
type event struct {
	message
	now           int64 // by the server's clock
	at            int64 // the same instant, on the true clock
	orphan        bool  // a new leader took it over, and answers nobody
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

// execute executes the attempt at a member, at the time of its parsing.
func (w *world) execute(m message, at int) event {
	now, when := w.nowOf(w.clockOf(m, at)), w.time
	if m.parsed != 0 {
		now, when = m.parsed, m.sent
	}
	p, d := w.cfg.protocol, w.latest(at)
	if (m.op == opRead || m.op == opCheck) && !m.linear {
		d = w.members[at].known
	}
	ev := event{message: m, now: now, at: when, before: d}
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
	case opDelete:
		ev.after, ev.outcome, ev.image = p.Delete(d, m.lease, now)
	}
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
		c.was = max(c.was, c.valid)
		if !w.cfg.protocol.Without.ValidityEndsAtSend {
			c.valid = 0
		}
	}
	if d := &w.clients[m.to]; m.handsOver() && !m.waits && (d.phase == idle || d.phase == requesting) {
		d.phase, d.id, d.last, d.unknown = promised, m.second, message{}, false
	}
	return m
}
