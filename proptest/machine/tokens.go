package machine

import (
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

// token is what a detach has left, or would have left.
type token struct {
	*program
	known model.Token
}

func (k token) engines(m *engineMachine) engine.Token {
	return engine.Token{Pin: m.pin(), Tag: string(k.known.Tag), Key: m.uuids[k.known.Key], TTL: ms(k.terms.TTL)}
}

// detach detaches under a new key, or under the one that the entry has.
func (m *engineMachine) detach(t *rapid.T) {
	if len(m.tokens) >= 8 {
		t.Skip("enough tokens")
	}
	a, l, g := m.lease(t)
	e, _ := m.doc.Find(l.Tag, l.ID)
	key := e.Key
	if key == 0 {
		key = m.newID()
	}
	k := token{a.program, model.Token{Tag: a.tag, Key: key}}
	doc, want, _ := m.model.Detach(m.doc, l, key, a.request().TTL, a.terms.Tolerance, m.now)
	got, err := a.engine.Detach(t.Context(), g, m.uuids[key])
	m.agrees(t, "detach", doc, want, got, err)
	if e.Key == 0 {
		m.tokens = append(m.tokens, k)
	}
}

// token draws a token, usually one whose entry is in the document.
func (m *engineMachine) token(t *rapid.T) token {
	var there []token
	for _, k := range m.tokens {
		if _, keyed := m.doc.Keyed(k.known); keyed {
			there = append(there, k)
		}
	}
	return usually(t, there, m.tokens)
}

// resume resumes under a new id, or under the id of an earlier resume: it is then
// a repeat, or a late duplicate.
func (m *engineMachine) resume(t *rapid.T) {
	k := m.token(t)
	var a *asker
	for _, other := range m.askers {
		if other.token == k.known && rapid.IntRange(0, 2).Draw(t, "again") == 0 {
			a = other
		}
	}
	if a == nil && len(m.askers) >= 30 {
		t.Skip("enough askers")
	}
	if a == nil {
		a = &asker{program: k.program, tag: k.known.Tag, id: m.newID(), token: k.known}
		m.askers = append(m.askers, a)
	}
	a.say(t)
	r := engine.Request{Tag: string(a.tag), ID: m.uuids[a.id], Document: rapid.Bool().Draw(t, "document")}
	doc, want, image := m.model.Resume(m.doc, k.known, a.request(), m.now)
	got, err := a.engine.Resume(t.Context(), k.engines(m), r)
	seen := m.agrees(t, "resume", doc, want, got, err)
	m.told(t, a, r, seen, got.Image, image, m.now)
}

func (m *engineMachine) touch(t *rapid.T) {
	k := m.token(t)
	doc, want, _ := m.model.Touch(m.doc, k.known, k.terms.TTL, k.terms.Tolerance, m.now)
	got, err := k.engine.Touch(t.Context(), k.engines(m))
	m.agrees(t, "touch", doc, want, got, err)
}
