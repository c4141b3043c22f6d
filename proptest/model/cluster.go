package model

import "slices"

// This file is a replica set. All members have one committed sequence of commands; world.doc is what it leaves.
// A member that believes that it is the primary executes commands at the end of its own log, and what is not
// committed of that is its tail. Only the leader has a majority, so it commits. A member that was deposed and has
// not heard of it goes on with the log that it has. A chunk that moves to another shard is the same: the old
// shard's deposed primary goes on with the old chunk.

type member struct {
	primary bool      // it believes so
	log     *Document // a deposed primary's: after the commands of its log that were committed by then
	known   *Document // what its majority reads show: committed, and perhaps old
	tail    []event   // what it has executed, and does not know as committed
}

func (w *world) newMembers() {
	w.members = make([]member, max(1, w.cfg.members))
	for i := range w.members {
		w.members[i].known = w.doc
	}
	w.members[0].primary = true
	w.offsets = make([]int64, len(w.members))
	if w.cfg.routers {
		w.offsets = make([]int64, len(w.clients))
	}
	copy(w.offsets, w.cfg.clocks)
}

// primaries lists the members that believe that they are the primary.
func (w *world) primaries() []int8 {
	out := make([]int8, 0, 2)
	for i := range w.members {
		if w.members[i].primary {
			out = append(out, int8(i))
		}
	}
	return out
}

// latest is the document at the end of a primary's log.
func (w *world) latest(at int) *Document {
	p := &w.members[at]
	switch n := len(p.tail); {
	case n > 0:
		return p.tail[n-1].after
	case at == w.leader:
		return w.doc
	}
	return p.log
}

// memberActions lists what the members may do next by themselves.
func (w *world) memberActions() []action {
	if len(w.members) == 1 {
		return nil
	}
	var out []action
	n := len(w.members[w.leader].tail)
	if n > 0 {
		out = append(out, action{kind: doCommit})
	}
	for i := range w.members {
		p, a := &w.members[i], action{client: int8(i)}
		if (i == w.leader || !p.primary) && p.known != w.doc {
			a.kind = doLearn
			out = append(out, a)
		}
		switch {
		case i == w.leader:
		case p.primary:
			a.kind = doStepDown
			out = append(out, a)
		case w.elections > 0:
			for prefix := range n + 1 {
				out = append(out, action{doElect, int8(i), int8(prefix), 0})
			}
		}
	}
	return out
}

// elect makes a member the leader. It has all that is committed, and the first commands of the old leader's tail.
// Their clients get no answer: the old leader never learns that these were committed, because it would learn of
// the election first.
func (w *world) elect(i, prefix int) {
	w.elections--
	old, p := &w.members[w.leader], &w.members[i]
	old.log = w.doc
	p.primary, p.tail = true, slices.Clone(old.tail[:prefix])
	for j := range p.tail {
		p.tail[j].orphan = true
	}
	w.leader = i
}

// commit commits the first command of the leader's tail, and answers it.
func (w *world) commit() {
	p := &w.members[w.leader]
	ev := p.tail[0]
	p.tail = p.tail[1:]
	w.doc, p.known = ev.after, ev.after
	w.check(ev)
	if !ev.orphan && w.awaited(ev.message) {
		w.answer(ev)
	}
}

func (w *world) commitAll() {
	for len(w.members[w.leader].tail) > 0 {
		w.commit()
	}
}

// serve has a member execute the attempt, and reports whether it can be answered now. A command is answered when
// all that it changed is committed. One that changed nothing waits for what it has read: if all of that is
// committed already, it is answered at once, by a deposed primary too.
func (w *world) serve(m message, at int, pend bool) (ev event, answered bool) {
	if m.linear { // only a primary that has a majority answers: all that it has read is committed then
		w.commitAll()
		ev = w.execute(m, at)
		return ev, true
	}
	ev = w.execute(m, at)
	if m.op.reads() {
		return ev, true
	}
	p := &w.members[at]
	if w.quiet(ev, at) {
		if at == w.leader {
			w.check(ev)
		}
		return ev, true
	}
	p.tail = append(slices.Clip(p.tail), ev)
	if at != w.leader || pend {
		return ev, false
	}
	w.commitAll()
	return ev, true
}

// quiet reports whether the command changed nothing, and all that it has read is committed.
func (w *world) quiet(ev event, at int) bool {
	return Same(ev.before, ev.after) && (len(w.members[at].tail) == 0 || w.cfg.protocol.Without.NothingWaits)
}

// mayMeet reports whether the client may send the attempt to a deposed primary. A command that is never answered
// is a fault.
func (w *world) mayMeet(m message, at int) bool {
	if m.linear {
		return false // it is not answered
	}
	return w.faults > 0 || m.op.reads() || w.quiet(w.execute(m, at), at)
}
