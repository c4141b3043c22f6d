package machine

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

// successor draws the successor of a handoff: a new id, or a waiting one.
// Sometimes it draws one whose entry is held or missing, or treats it as
// waiting when it is not.
func (m *engineMachine) successor(t *rapid.T, from *asker) (s *asker, waits bool) {
	var others, there, missing []*asker
	for _, a := range m.askers {
		if a.program != from.program || a == from || !a.arrives() {
			continue
		}
		others = append(others, a)
		switch e, ok := m.doc.Find(a.tag, a.id); {
		case !ok:
			missing = append(missing, a)
		case !e.Held():
			there = append(there, a)
		}
	}
	kind := rapid.IntRange(0, 9).Draw(t, "successor")
	switch {
	case kind < 6 && len(there) > 0:
		return pick(t, "who waits", there).say(t), true
	case kind >= 7 && kind < 9 && len(missing) > 0:
		return pick(t, "who has left", missing).say(t), true
	case kind == 9 && len(others) > 0:
		return pick(t, "who", others).say(t), rapid.Bool().Draw(t, "counts as waiting")
	}
	if len(m.askers) >= 30 {
		t.Skip("enough askers")
	}
	s = &asker{program: from.program, tag: from.tag, id: m.newID(), own: drawTerms(t)}
	if rapid.IntRange(0, 2).Draw(t, "another tag") == 2 {
		s.tag = drawTag(t, from.rules)
	}
	m.askers = append(m.askers, s)
	return s.say(t), false
}

// handoff releases and hands over: alone, after a pipeline, or by
// compare-and-set.
func (m *engineMachine) handoff(t *rapid.T) {
	a, l, g := m.lease(t)
	if rapid.IntRange(0, 4).Draw(t, "any fence") < 4 {
		g.Fence, l.Fence = a.fence, a.fence
	}
	s, waits := m.successor(t, a)
	next := engine.Successor{Waiting: waits, Request: m.sends(t, s)}
	to := model.Successor{Request: s.request(), Waiting: waits}
	if rapid.IntRange(0, 2).Draw(t, "without an update") == 2 {
		doc, want, image := m.model.Handoff(m.doc, l, 0, to, m.now)
		t.Logf("handoff with fence %d to %d, waiting %v: the model says %s: %v", l.Fence, s.id, waits, want, doc)
		got, err := a.engine.Handoff(t.Context(), g, next)
		m.handed(t, "handoff", s, next, doc, want, image, got, err)
		return
	}
	label, update := m.nextUpdate(t)
	u := m.parsed(t, a, update)
	pipeline := isPipeline(update)
	g.Alone = a.alone
	can, inherits := a.engine.Piggybacks(g, u, next)
	inherited := s.request().TTL == a.request().TTL && s.own.Least == 0 && s.own.Most == 0 && g.Until.IsZero()
	if wantCan := pipeline || !waits && s.tag == a.tag && inherited && g.Alone != 0; can != wantCan || inherits == pipeline {
		t.Fatalf("Piggybacks says %v and %v", can, inherits)
	}
	if _, there := m.doc.Find(s.tag, s.id); !can || there && !pipeline {
		return
	}
	command := "handoff"
	doc, want, image := m.model.Handoff(m.doc, l, label, to, m.now)
	if !pipeline {
		command = "compare-and-set"
		doc, want, image = m.model.CompareAndSet(m.doc, l, label, to.Request, a.alone, m.now)
	}
	t.Logf("%s with an update and fence %d to %d, waiting %v: the model says %s: %v", command, l.Fence, s.id, waits, want, doc)
	got, err := a.engine.WriteAndHandOff(t.Context(), g, u, next)
	m.handed(t, command, s, next, doc, want, image, got, err)
}

// handed compares the outcome of a handoff.
func (m *engineMachine) handed(t *rapid.T, command string, s *asker, next engine.Successor, doc *model.Document, want model.Outcome, image *model.Document, got engine.Answer, err error) {
	t.Helper()
	seen := m.outcome(t, command, want, got.Outcome, err)
	now := m.now
	if command == "compare-and-set" && next.Document { // the image is whole, and has no clock
		now = time.Time{}.UnixMilli()
	}
	m.settle(doc)
	m.told(t, s, next.Request, seen, got.Image, image, now)
}
