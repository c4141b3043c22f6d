package machine

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

// heir draws who a lease is handed over to: a new id, or one that waits; and
// now and then one whose entry is held, or gone, or taken for what it isn't.
func (m *engineMachine) heir(t *rapid.T, from *asker) (h *asker, waits bool) {
	var others, there, gone []*asker
	for _, a := range m.askers {
		if a.program != from.program || a == from {
			continue
		}
		others = append(others, a)
		switch e, ok := m.doc.Find(a.tag, a.id); {
		case !ok:
			gone = append(gone, a)
		case !e.Held():
			there = append(there, a)
		}
	}
	kind := rapid.IntRange(0, 9).Draw(t, "heir")
	switch {
	case kind < 6 && len(there) > 0:
		return pick(t, "who waits", there).say(t), true
	case kind >= 7 && kind < 9 && len(gone) > 0:
		return pick(t, "who has gone", gone).say(t), true
	case kind == 9 && len(others) > 0:
		return pick(t, "who", others).say(t), rapid.Bool().Draw(t, "is taken for one that waits")
	}
	if len(m.askers) >= 30 {
		t.Skip("enough askers")
	}
	h = &asker{program: from.program, tag: from.tag, id: m.newID()}
	if rapid.IntRange(0, 2).Draw(t, "another tag") == 2 {
		h.tag = drawTag(t, from.table)
	}
	m.askers = append(m.askers, h)
	return h.say(t), false
}

// handoff releases and hands over, with nothing else, with a pipeline in front,
// or by compare-and-set.
func (m *engineMachine) handoff(t *rapid.T) {
	a, l, g := m.lease(t)
	if rapid.IntRange(0, 4).Draw(t, "any token") < 4 {
		g.Fence, l.Fence = a.fence, a.fence
	}
	h, waits := m.heir(t, a)
	next := engine.Successor{Waiting: waits, Request: engine.Request{
		Tag: string(h.tag), ID: m.uuids[h.id], Document: rapid.Bool().Draw(t, "document"),
	}}
	to := model.Heir{Request: h.request(), Waiting: waits}
	if rapid.IntRange(0, 2).Draw(t, "without an update") == 2 {
		doc, want, image := m.model.Handoff(m.doc, l, to, m.now)
		t.Logf("handoff with token %d to %d, waiting %v: the model says %s: %v", l.Fence, h.id, waits, want, doc)
		got, err := a.engine.Handoff(t.Context(), g, next)
		m.handed(t, "handoff", h, next, doc, want, image, got, err)
		return
	}
	label, update := m.nextUpdate(t)
	u := m.parsed(t, a, update)
	pipeline := isPipeline(update)
	g.Alone = a.alone
	can, inherits := a.engine.Piggybacks(g, u, next)
	if wantCan := pipeline || !waits && h.tag == a.tag && g.Alone != 0; can != wantCan || inherits == pipeline {
		t.Fatalf("Piggybacks says %v and %v", can, inherits)
	}
	if _, there := m.doc.Find(h.tag, h.id); !can || there && !pipeline {
		return
	}
	command := "handoff"
	doc, want, image := m.model.WriteAndHandOff(m.doc, l, label, to, m.now)
	if !pipeline {
		command = "compare-and-set"
		doc, want, image = m.model.CompareAndSet(m.doc, l, label, to.Request, a.alone, m.now)
	}
	t.Logf("%s with an update and token %d to %d, waiting %v: the model says %s: %v", command, l.Fence, h.id, waits, want, doc)
	got, err := a.engine.WriteAndHandOff(t.Context(), g, u, next)
	m.handed(t, command, h, next, doc, want, image, got, err)
}

// handed compares what came of a handoff.
func (m *engineMachine) handed(t *rapid.T, command string, h *asker, next engine.Successor, doc *model.Document, want model.Outcome, image model.Image, got engine.Answer, err error) {
	t.Helper()
	seen := m.outcome(t, command, want, got.Outcome, err)
	if command == "compare-and-set" && next.Document { // the image is whole, and has no clock
		image.Now = time.Time{}.UnixMilli()
	}
	if next.Waiting && want != model.NotApplied {
		m.settle(afterConfirm(doc, h.tag, h.id, m.now)...)
		image.Doc = m.doc
	} else {
		m.settle(doc)
	}
	m.told(t, h, next.Request, seen, got.Image, image)
}
