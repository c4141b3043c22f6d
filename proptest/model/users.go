package model

import "slices"

// This file is the clients' part of tokens, downgrades and HoldAtLeast.
//
// A SkipLocked acquire needs nothing here. Its look-up of candidates is a read
// that proves nothing, and its command is an ordinary acquire of one candidate
// by _id: it is judged as any acquire, and the caller's filter only makes it
// miss more often ("not found", as for a document that is gone). A candidate
// that was missed costs a command and leaves no trace, and each candidate gets
// an id of its own (rule 19).

// onlyShows reports whether client i only shows tokens.
func (w *world) onlyShows(i int) bool { return i >= len(w.clients)-w.cfg.users }

// shows lists the attempts of a client that has nothing but tokens.
func (w *world) shows(m message) []message {
	var out []message
	for _, t := range w.tokens {
		m.key, m.lease.Tag = t.Key, t.Tag
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
	if c.lowers == w.cfg.lowers || c.id%10 != 0 { // none, or downgraded already
		return out
	}
	if to, ok := w.cfg.lower[c.tag]; ok {
		n := m.as(opDowngrade)
		n.u, n.k = 0, c.writes+1
		n.next = Lease{Tag: to, ID: c.id + 1}
		out = append(out, n)
	}
	return out
}

// transformAgain lists the commands that may be sent while the outcome of a
// detach or a downgrade is unknown: the same again, or a release. After a
// downgrade both ids are released, the old one first: then no attempt of the
// downgrade can be executed any more.
func (w *world) transformAgain(c *client) []message {
	m := c.last
	out := []message{m}
	if !c.unknown {
		return out
	}
	n := message{op: opRelease, from: m.from, lease: m.lease, next: m.next}
	if m.op == opDowngrade && w.cfg.protocol.Without.OldIDFirst {
		n.lease, n.next = m.next, m.lease
	}
	return append(out, n)
}

// detached handles the answers of detaches: the handle has ended, whatever the
// answer is. The token is handed out unless the entry is certainly not there.
// If an earlier attempt may have been executed, an image tells: nobody else
// knows a new key. Others know that of a handle that was itself resumed.
func (w *world) detached(c *client, ev event) {
	_, there := ev.image.Keyed(Token{c.tag, c.key})
	if ev.outcome == Detached || c.unknown && (there || c.key != c.id) {
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

// resumed handles the answers of resumes.
func (w *world) resumed(c *client, ev event) {
	if ev.outcome != Granted {
		w.lost(c, ev)
		return
	}
	if w.cfg.protocol.Without.NewIDAtResume {
		e, _ := ev.image.Keyed(Token{c.tag, c.key})
		c.id = e.ID
	}
	w.hold(c, ev, w.anchor(ev.message))
}

// lowered handles the answers of downgrades. A refusal is final: the holder goes
// on as before, with the validity that it had.
func (w *world) lowered(c *client, ev event) {
	switch ev.outcome {
	case Granted:
		c.id, c.own, c.tag, c.key = ev.next.ID, ev.next.ID, ev.next.Tag, 0
		c.writes, c.lowers, c.valid, c.was = 0, 0, 0, 0
		w.hold(c, ev, w.anchor(ev.message))
	case Conflict:
		if _, there := ev.after.guarded(ev.lease, false); !there {
			w.fail("downgrade", "refused, but entry %d is gone", c.id)
		}
		c.phase, c.unknown, c.last = holding, false, message{}
		c.valid, c.was = max(c.valid, c.was), 0
	default:
		w.lost(c, ev)
	}
}
