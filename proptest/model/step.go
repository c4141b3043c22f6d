package model

import (
	"cmp"
	"fmt"
	"slices"
)

// note records the last step, for traces.
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
		n.offsets[a.client] += int64(a.index) * w.stride()
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
	case doCommit:
		n.commit()
	case doElect:
		n.elect(int(a.client), int(a.index))
	case doStepDown:
		n.stepDown(int(a.client))
	case doLearn:
		n.members[a.client].known = n.doc
	}
	if n.broken == nil {
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
		doCommit:   fmt.Sprintf("member %d commits -> %v", w.leader, w.doc),
		doElect:    fmt.Sprintf("member %d is elected, with %d of the leader's commands that were not committed", a.client, a.index),
		doStepDown: fmt.Sprintf("member %d steps down, and rolls back", a.client),
		doLearn:    fmt.Sprintf("member %d hears what is committed", a.client),
	}[a.kind]
	text = cmp.Or(special, text)
	return fmt.Sprintf("t=%d now=%d  %s", w.time, w.now(), text)
}
