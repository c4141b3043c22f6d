package machine

import (
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

// downgrade gives up a lease for one of a tag of the same rules: under a new id,
// or under the id of an earlier downgrade of it. It is then a repeat, or a late
// duplicate. The new entry has the owner of the own one.
func (m *engineMachine) downgrade(t *rapid.T) {
	a, l, g := m.lease(t)
	s := m.downgradedTo(t, a)
	if a.k == 0 || rapid.IntRange(0, 2).Draw(t, "a repeat") < 2 {
		a.k++
	}
	k := rapid.IntRange(max(1, a.k-1), a.k).Draw(t, "number")
	r := engine.Request{Tag: string(s.tag), ID: m.uuids[s.id], Terms: s.own, Document: rapid.Bool().Draw(t, "document")}
	to := s.request()
	if e, there := m.doc.Find(a.tag, a.id); there {
		to.Owner = e.Owner
	}
	doc, want, image := m.model.Downgrade(m.doc, l, k, to, m.now)
	if m.doc != nil && m.doc.Field == model.Foreign { // see doc.go
		want = model.ForeignLock
	}
	got, err := a.engine.Downgrade(t.Context(), g, int64(k), r)
	seen := m.agrees(t, "downgrade", doc, want, got, err)
	m.told(t, s, r, seen, got.Image, image, m.now)
}

// downgradedTo draws the asker that a lease becomes.
func (m *engineMachine) downgradedTo(t *rapid.T, a *asker) *asker {
	for _, s := range m.askers {
		if s.from == a && rapid.IntRange(0, 2).Draw(t, "again") == 0 {
			return s.say(t)
		}
	}
	if len(m.askers) >= 30 {
		t.Skip("enough askers")
	}
	own := drawTerms(t)
	own.Least, own.Owner = 0, ""
	s := &asker{program: a.program, tag: drawTag(t, a.rules), id: m.newID(), own: own, from: a}
	m.askers = append(m.askers, s)
	return s.say(t)
}
