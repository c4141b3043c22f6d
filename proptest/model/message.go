package model

import (
	"fmt"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// operation is a command of the protocol, as a client sends it.
type operation uint8

const (
	opAcquire operation = iota
	opTry
	opConfirm
	opRenew
	opCheck // a read that proves the lease, as after a batched renewal
	opWrite
	opWriteRelease
	opRelease
	opHandoff // with or without an update in front
	opSet     // compare-and-set handoff
	opRead    // finds the outcome of an unknown attempt
	opDetach
	opResume
	opTouch
	opConvert
	opDelete
	opClaim
	opLook // finds the entry of a claim of unknown outcome
	opKeep // renews it
	opTakeOver
	opBatch // a claim that is answered with a number
	opFind  // the read after it, which shows what it has done
)

func (o operation) String() string {
	return [...]string{"acquire", "try-acquire", "confirm", "renew", "check", "write", "write-and-release",
		"release", "handoff", "compare-and-set handoff", "read", "detach", "resume", "touch", "convert", "delete", "claim", "look", "keep", "take-over", "batch", "find"}[o]
}

func (o operation) releases() bool {
	switch o {
	case opWriteRelease, opRelease, opHandoff, opSet, opDelete:
		return true
	}
	return false
}

func (o operation) reads() bool { return o == opRead || o == opCheck || o == opLook || o == opFind }

// message is one attempt of a command, with everything that the server
// receives.
type message struct {
	op     operation
	from   int8 // the client
	to     int8 // handoffs: the successor
	lease  Lease
	second ID     // handoffs, and the command after one: the successor's id
	waits  bool   // handoffs: the successor waits in the document
	k      int    // writes: the number
	u      Update // writes: the update
	f      int64  // compare-and-set: lock.fence in the image of the grant
	until  int64  // compare-and-set: the end of the validity that is inherited
	key    ID     // detach, resume, touch: the token's
	state  bool   // resume, touch: the filter demands a document without an update
	next   Lease  // conversion, and the clean-up after one: the new entry
	taken  Lease  // take-over: the named entry
	sent   int64  // true time
	parsed int64  // the server's time when it parsed the command; 0: not yet
	linear bool   // reads: with read concern linearizable, and not majority
}

func (m message) as(op operation) message { m.op = op; return m }

// repeats reports whether the attempt repeats the last one: the same command,
// or another one that releases the same lease, with the same update or none.
func (m message) repeats(last message) bool {
	if m.lease.ID != last.lease.ID {
		return false
	}
	released := m.op.releases() && last.op.releases()
	return (m.op == last.op || released) && m.k == last.k && m.u == last.u || released && m.u == 0
}

// unparsed is the message in its client's form.
func (m message) unparsed() message { m.parsed = 0; return m }

func (m message) handsOver() bool { return m.op == opHandoff || m.op == opSet }

// handoffAgain is the handoff that preceded the plain command.
func (m message) handoffAgain() message {
	if m.f != 0 {
		return m.as(opSet)
	}
	return m.as(opHandoff)
}

// plain is the command that follows a handoff that found nothing.
func (m message) plain() message {
	if m.u != 0 {
		return m.as(opWriteRelease)
	}
	return m.as(opRelease)
}

func (m message) String() string {
	type fields message // without this method
	from, op := m.from, m.op
	m.from, m.op = 0, 0
	return fmt.Sprintf("client %d: %v %s", from, op, interleave.Terse(fields(m)))
}

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
	image         *Document
}

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
	if m.op.reads() && !m.linear {
		d = w.members[at].known
	}
	ev := event{message: m, now: now, at: when, before: d}
	ev.after, ev.outcome, ev.image = w.command(p, d, m, now)
	return ev
}

func (w *world) command(p Protocol, d *Document, m message, now int64) (*Document, Outcome, *Document) {
	ttl, tolerance := w.cfg.ttl, w.cfg.tolerance
	own, token := w.request(int(m.from), m.lease.ID), Token{m.lease.Tag, m.key}
	switch m.op {
	case opAcquire:
		return p.Acquire(d, own, Queue, now)
	case opTry:
		return p.Acquire(d, own, Try, now)
	case opTakeOver:
		own.TakeOver = []Lease{m.taken}
		return p.Acquire(d, own, Try, now)
	case opConfirm:
		return p.Confirm(d, own, now)
	case opClaim, opBatch:
		return p.Claim(d, own, now)
	case opRenew, opKeep:
		return p.Renew(d, m.lease, ttl, tolerance, now)
	case opWrite:
		return p.Write(d, m.lease, m.k, m.u, now)
	case opWriteRelease:
		return p.WriteAndRelease(d, m.lease, m.u, now)
	case opRelease:
		return p.Release(d, m.lease, now)
	case opHandoff:
		return p.Handoff(d, m.lease, m.u, Successor{w.request(int(m.to), m.second), m.waits}, now)
	case opSet:
		return p.CompareAndSet(d, m.lease, m.u, w.request(int(m.to), m.second), m.f, now)
	case opDetach:
		return p.Detach(d, m.lease, m.key, ttl, tolerance, now)
	case opResume:
		return p.Resume(d, token, own, m.matches(d), now)
	case opTouch:
		return p.Touch(d, token, m.matches(d), ttl, tolerance, now)
	case opConvert:
		to := own
		to.Tag, to.ID, to.Hold = m.next.Tag, m.next.ID, 0
		return p.Convert(d, m.lease, m.k, to, now)
	case opDelete:
		return p.Delete(d, m.lease, now)
	}
	return p.Read(d) // a check, a look and a find, too
}

// matches reports whether the document is what a resume or a touch demands beside its _id.
func (m message) matches(d *Document) bool { return !m.state || d == nil || len(d.Log) == 0 }

// takes says that the command ends this entry, if it is granted.
func (m message) takes(tag Tag, e Entry) bool {
	return m.op == opTakeOver && m.taken == Lease{tag, e.ID, e.Fence}
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
	case opAcquire, opTry, opClaim, opBatch, opTakeOver:
		c.phase, c.id = requesting, m.lease.ID
	case opWrite:
		c.phase, c.writes = writing, m.k
	case opDetach:
		c.phase, c.key = detaching, m.key
	case opResume:
		c.phase, c.id, c.own, c.key, c.tag = resuming, m.lease.ID, m.lease.ID, m.key, m.lease.Tag
	case opTouch:
		w.beats--
	case opConvert:
		if c.phase == holding { // no repeat
			c.was = c.valid
			c.lowers++
		}
		c.phase, c.writes = lowering, m.k
	}
	if m.op.releases() {
		c.phase = leaving
		c.was = max(c.was, c.valid)
	}
	ends := m.op.releases() || m.op == opDetach || m.op == opConvert
	if ends && !w.cfg.protocol.Without.ValidityEndsAtSend {
		c.valid = 0
	}
	if d := &w.clients[m.to]; m.handsOver() && !m.waits && (d.phase == idle || d.phase == requesting) {
		d.phase, d.id, d.last, d.unknown = promised, m.second, message{}, false
	}
	return m
}
