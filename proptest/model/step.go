package model

import (
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
		n.offset += int64(a.index) * min(w.cfg.tick, w.cfg.tolerance)
	case doPrompt, doSilent, doDelay, doParsed:
		n.send(a, w.options(int(a.client))[a.index])
	case doArrive:
		n.arrive(int(a.index))
	case doTimeout:
		n.unanswered(&n.clients[a.client])
	case doCrash:
		n.crash(&n.clients[a.client])
	case doQuit:
		n.end(&n.clients[a.client])
	case doForeign:
		n.foreign(a.index)
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
			m.parsed = w.now()
			w.note.outcome = "parsed"
		}
		w.flight = append(w.flight, m)
		w.clients[m.from].awaits = true
		return
	case doSilent:
		w.faults--
	}
	ev := w.execute(m)
	w.check(ev)
	if a.kind == doSilent {
		w.note = note{m, ev.outcome, "answer lost"}
		w.unanswered(&w.clients[m.from])
		return
	}
	w.note = note{m, ev.outcome, "answered"}
	w.answer(ev)
}

// arrive executes an attempt that was on its way.
func (w *world) arrive(i int) {
	m := w.flight[i]
	awaited := w.awaited(m)
	w.flight = slices.Delete(w.flight, i, i+1)
	ev := w.execute(m)
	w.check(ev)
	w.note = note{m, ev.outcome, "late, no client waits"}
	if awaited {
		w.note.fate = "late, answered"
		w.answer(ev)
	}
}

// tell describes the action that led to this world.
func (w *world) tell(a action) string {
	text := fmt.Sprintf("%v: %s, %s -> %v", w.note.message, w.note.outcome, w.note.fate, w.doc)
	switch a.kind {
	case doTick:
		text = "tick"
	case doStep:
		text = fmt.Sprintf("the server's clock steps by %d", a.index)
	case doTimeout:
		text = fmt.Sprintf("client %d: gives up waiting for the answer", a.client)
	case doCrash:
		text = fmt.Sprintf("client %d: crashes", a.client)
	case doQuit:
		text = fmt.Sprintf("client %d: gives up its command", a.client)
	case doForeign:
		text = fmt.Sprintf("outside writer: %s -> %v", outsideNames[a.index], w.doc)
	}
	return fmt.Sprintf("t=%d now=%d  %s", w.time, w.now(), text)
}

// crash ends the client for good.
func (w *world) crash(c *client) {
	w.crashes--
	c.round = w.cfg.rounds - 1
	w.end(c)
}
