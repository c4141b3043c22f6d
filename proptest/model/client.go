package model

import (
	"cmp"
	"slices"
)

// A client is a program that asks for one lease at a time. It is somewhat
// bolder than the library: it accepts a renewal's answer however late it comes.
type client struct {
	phase   phase
	before  phase   // while it resolves: of the command that found nothing
	home    Tag     // the tag that it acquires
	tag     Tag     // the tag of its lease: a resume or a conversion changes it
	round   int     // the number of leases that it has asked for
	id      ID      // of the present acquire, or of the lease
	own     ID      // the id that it made for this lease; rule 23: the same
	key     ID      // the lease's token, if it has one
	seq     int64   // its ticket's; 0 without one
	fence   int64   // its fencing token
	valid   int64   // the end of its lease's validity, on the true clock
	writes  int     // the number of its last guarded write, or conversion
	lowers  int     // the number of its conversions
	newest  ID      // newest in done, in the image of the grant
	sole    int64   // lock.fence of the grant's image, if that had its entry only
	was     int64   // during a conversion or a release: the end of the lease's validity before it
	last    message // the present command: a repeat sends it again
	unknown bool    // an earlier attempt of it has no answer
	awaits  bool    // an attempt is under way, and the client waits for it
}

type phase uint8

const (
	idle       phase = iota // has nothing; may acquire
	requesting              // sent an acquire: not answered, or refused
	waiting                 // has a place in the queue
	promised                // another client hands it a lease, by an id that doesn't wait
	holding                 // has a lease, as far as it knows
	writing                 // a guarded write waits for its answer
	leaving                 // releases the lock, or the place
	resolving               // its command found nothing: it must read
	detaching               // its lease has ended; a token is left
	resuming                // shows a token
	lowering                // converts its lease
	stopped                 // has finished
)

// validAt reports whether the client's lease is valid at this true time.
func (c *client) validAt(time int64) bool { return time < c.valid }

// newID is the next id of client i: 100, 110, … for the first client. A
// conversion takes the id after its lease's.
func (w *world) newID(i int) ID {
	round := w.clients[i].round
	if w.cfg.protocol.Without.IDsAreNew {
		round = 0
	}
	return ID((i+1)*100 + round*10)
}

// owner is the client of an id, or of the lease that left an entry with the id.
func owner(id ID) int {
	if id < 0 {
		id = -id
	}
	return int(id)/100 - 1
}

// options lists the attempts that client i may send now. The list depends on
// the state alone, so an index replays the choice.
func (w *world) options(i int) []message {
	c := &w.clients[i]
	if c.awaits {
		return nil
	}
	m := message{from: int8(i), lease: Lease{c.tag, c.id, c.fence}}
	switch c.phase {
	case idle:
		return w.fresh(i, m)
	case requesting:
		return w.requestAgain(c, m)
	case waiting:
		m.lease.Fence = 0
		return []message{m.as(opConfirm), m.as(opRelease)}
	case holding:
		return w.holder(i, c, m)
	case writing, resuming:
		return []message{c.last}
	case detaching, lowering:
		return w.transformAgain(c)
	case leaving:
		return w.leaveAgain(c)
	case resolving:
		r := c.last
		r.op, r.linear = opRead, w.linear()
		return []message{r}
	}
	return nil
}

// fresh begins an acquire. Of several clients with the same tag that have done
// nothing yet, only the first one begins: the others are equivalent.
func (w *world) fresh(i int, m message) []message {
	if !w.first(i) {
		return nil
	}
	m.lease.ID = w.newID(i)
	m.lease.Fence = 0
	out := w.shows(m)
	if w.onlyShows(i) {
		return out
	}
	out = append(out, m.as(opAcquire))
	if w.cfg.claims {
		out = append(out, m.as(opClaim))
	}
	if w.cfg.batches {
		out = append(out, m.as(opBatch))
	}
	if w.cfg.tries {
		out = append(out, m.as(opTry))
	}
	for tag, e := range w.doc.All() {
		if w.cfg.takes && e.ID > 0 {
			n := m.as(opTakeOver)
			n.taken = Lease{tag, e.ID, e.Fence}
			out = append(out, n)
		}
	}
	return out
}

// first reports whether no client before i is equivalent to it and unused.
func (w *world) first(i int) bool {
	if w.clients[i].round > 0 {
		return true
	}
	for j := range i {
		if o := &w.clients[j]; o.phase == idle && o.round == 0 && w.onlyShows(i) == w.onlyShows(j) && w.sameProgram(i, j) {
			return false
		}
	}
	return true
}

func (w *world) sameProgram(i, j int) bool {
	return w.cfg.tags[i] == w.cfg.tags[j] && (len(w.cfg.ruleSets) == 1 || i == j)
}

func (w *world) requestAgain(c *client, m message) []message {
	m.lease.Fence = 0
	look := m.as(opLook)
	look.linear = w.linear()
	switch c.last.op {
	case opKeep:
		return []message{c.last, look}
	case opClaim, opLook:
		return []message{look, m.as(opRelease)}
	case opBatch:
		return []message{look.as(opFind), m.as(opRelease)}
	case opFind:
		return []message{c.last, m.as(opRelease)}
	}
	out := []message{c.last}
	if c.unknown { // give up: the clean-up goes by the id
		out = append(out, m.as(opRelease))
	}
	return out
}

func (w *world) holder(i int, c *client, m message) []message {
	out := make([]message, 0, 8)
	if c.validAt(w.time) {
		out = append(out, m.as(opRenew))
		if w.cfg.checks {
			out = append(out, m.as(opCheck))
		}
	}
	m.u = Update(int(cmp.Or(c.own, c.id))*100 + c.writes + 1)
	if c.writes-c.lowers < w.cfg.writes {
		n := m.as(opWrite)
		n.k = c.writes + 1
		out = append(out, n)
	}
	if w.cfg.writes > 0 {
		out = append(out, m.as(opWriteRelease))
	}
	out = append(out, m.as(opRelease))
	if w.cfg.deletes && w.cfg.isAlone(c.tag) {
		n := m.as(opDelete)
		n.u = 0
		out = append(out, n)
	}
	out = append(out, w.transforms(c, m)...)
	if w.cfg.handoffs {
		out = append(out, w.handoffs(i, c, m)...)
	}
	return out
}

// handoffs lists the handoffs that client i may send: to a client that waits in
// the document, or to one that has no entry yet. The latter may have been
// refused before under the same id.
func (w *world) handoffs(i int, c *client, m message) []message {
	var out []message
	u := m.u
	for j := range w.clients {
		d := &w.clients[j]
		m.to, m.second, m.waits, m.u = int8(j), d.id, d.phase == waiting, 0
		switch {
		case j == i, d.awaits:
			continue
		case d.phase == waiting, d.phase == requesting && d.last.op == opAcquire:
		case d.phase == idle && w.first(j) && !w.onlyShows(j):
			m.second = w.newID(j)
		default:
			continue
		}
		out = append(out, m.as(opHandoff))
		if w.cfg.writes == 0 {
			continue
		}
		m.u = u
		out = append(out, m.as(opHandoff))
		if !m.waits && c.tag == d.tag && w.sameProgram(i, j) && c.sole != 0 && c.validAt(w.time) {
			n := m.as(opSet)
			n.f, n.until = c.sole, c.valid
			out = append(out, n)
		}
	}
	return out
}

// leaveAgain lists the commands that may be sent again, or instead, while the
// outcome of a release is unknown. One try of an update with a handoff is the
// handoff and, if that finds nothing, the update with a release. One try of a
// release is the same without the update. A client that gives up an update
// still releases.
func (w *world) leaveAgain(c *client) []message {
	m := c.last
	out := []message{m}
	if !c.unknown {
		return out
	}
	if m.second != 0 && !m.handsOver() {
		out = append(out, m.handoffAgain())
	}
	if m.u != 0 {
		m.u, m.f, m.until = 0, 0, 0
		out = append(out, m.as(opRelease))
		if m.second != 0 {
			out = append(out, m.as(opHandoff))
		}
	}
	return out
}

// This file is the clients' part of claims, tokens, conversions and HoldAtLeast.

// looked handles the answers of look-ups: an entry that is found may have expired, and is
// renewed. Without one the id is cleaned up, and the client goes on by another one.
func (w *world) looked(c *client, ev event) {
	m := message{op: opRelease, from: ev.from, lease: Lease{Tag: c.tag, ID: c.id}}
	e, there := ev.image.Find(c.tag, c.id)
	switch {
	case there && w.cfg.protocol.Without.FoundIsRenewed:
		w.hold(c, ev, w.anchor(ev.message))
	case there:
		c.fence, m.lease.Fence = e.Fence, e.Fence
		c.last = m.as(opKeep)
	default:
		c.phase, c.last = leaving, m
	}
}

// found handles the answers of the reads after a batch. An entry counts for the rest of its time, from the read's send
// on. Without one a linearizable read follows, and then the id is cleaned up, as after an attempt of unknown outcome.
func (w *world) found(c *client, ev event) {
	e, there := ev.image.Find(c.tag, c.id)
	rest := ev.image.remaining(Lease{c.tag, c.id, e.Fence}, w.cfg.ttl, w.cfg.tolerance, ev.now)
	switch {
	case there && w.cfg.protocol.Without.RemainingFromExpiry:
		w.hold(c, ev, ev.sent+w.cfg.ttl)
	case there && rest > 0:
		w.hold(c, ev, ev.sent+rest)
	case !there && !ev.linear && w.linear():
		c.last = ev.unparsed()
		c.last.linear = true
	default:
		c.phase, c.last = leaving, message{op: opRelease, from: ev.from, lease: Lease{Tag: c.tag, ID: c.id}}
	}
}

// kept handles the answers of their renewals.
func (w *world) kept(c *client, ev event) {
	if ev.outcome == Renewed {
		ev.image = ev.after
		w.hold(c, ev, w.anchor(ev.message))
		return
	}
	c.phase, c.fence = leaving, 0
	c.last = message{op: opRelease, from: ev.from, lease: Lease{Tag: c.tag, ID: c.id}}
}

// onlyShows reports whether client i only shows tokens.
func (w *world) onlyShows(i int) bool { return i >= len(w.clients)-w.cfg.users }

// shows lists the attempts of a client that has nothing but tokens.
func (w *world) shows(m message) []message {
	var out []message
	for _, t := range w.tokens {
		m.key, m.lease.Tag, m.state = t.Key, t.Tag, w.cfg.state
		out = append(out, m.as(opResume))
		if w.beats > 0 {
			n := m.as(opTouch)
			n.lease.ID = 0
			out = append(out, n)
		}
	}
	return out
}

// transforms lists the commands that end the holder's handle and not its lock.
func (w *world) transforms(c *client, m message) []message {
	var out []message
	if w.cfg.tokens {
		n := m.as(opDetach)
		n.u, n.key = 0, c.key
		if c.key == 0 {
			n.key = c.id // at a server it is random
		}
		out = append(out, n)
	}
	if c.lowers == w.cfg.lowers || c.id%10 != 0 { // none, or converted already
		return out
	}
	if to, ok := w.cfg.lower[c.tag]; ok {
		n := m.as(opConvert)
		n.u, n.k = 0, c.writes+1
		n.next = Lease{Tag: to, ID: c.id + 1}
		out = append(out, n)
	}
	return out
}

// transformAgain lists the commands that may be sent while the outcome of a
// detach or a conversion is unknown: the same again, or a release. After a
// conversion both ids are released, the old one first: then no attempt of the
// conversion can be executed any more.
func (w *world) transformAgain(c *client) []message {
	m := c.last
	out := []message{m}
	if !c.unknown {
		return out
	}
	n := message{op: opRelease, from: m.from, lease: m.lease, next: m.next}
	if m.op == opConvert && w.cfg.protocol.Without.OldIDFirst {
		n.lease, n.next = m.next, m.lease
	}
	return append(out, n)
}

// detached handles the answers of detaches: the handle has ended, whatever the
// answer is. The token is handed out unless the entry is certainly not there: if an
// earlier attempt may have been executed, a user of the token may have had it since.
func (w *world) detached(c *client, ev event) {
	_, there := ev.image.Keyed(Token{c.tag, c.key})
	if ev.outcome == Detached || c.unknown && (there || !w.cfg.protocol.Without.DetachDoubts) {
		w.handOut(c)
		w.end(c)
		return
	}
	w.lost(c, ev)
}

// handOut makes the client's token known.
func (w *world) handOut(c *client) {
	if t := (Token{c.tag, c.key}); !slices.Contains(w.tokens, t) {
		w.tokens = append(w.tokens, t)
	}
}

func (w *world) resumed(c *client, ev event) {
	switch ev.outcome {
	case Granted:
	case NotFound, Conflict:
		w.saysUnmatched(ev)
		w.end(c)
		return
	default:
		w.lost(c, ev)
		return
	}
	if w.cfg.protocol.Without.NewIDAtResume {
		e, _ := ev.image.Keyed(Token{c.tag, c.key})
		c.id = e.ID
	}
	w.hold(c, ev, w.anchor(ev.message))
}

// lowered handles the answers of conversions. A refusal is final: the holder goes
// on as before, with the validity that it had.
func (w *world) lowered(c *client, ev event) {
	switch ev.outcome {
	case Granted:
		c.id, c.own, c.tag, c.key = ev.next.ID, ev.next.ID, ev.next.Tag, 0
		c.writes, c.lowers, c.valid, c.was = 0, 0, 0, 0
		w.hold(c, ev, w.anchor(ev.message))
	case Conflict:
		if _, there := ev.after.guarded(ev.lease, false); !there {
			w.fail("convert", "refused, but entry %d is gone", c.id)
		}
		c.phase, c.unknown, c.last = holding, false, message{}
		c.valid, c.was = max(c.valid, c.was), 0
	default:
		w.lost(c, ev)
	}
}
