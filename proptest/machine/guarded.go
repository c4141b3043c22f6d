package machine

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

func held(e model.Entry) bool    { return e.Held() }
func waiting(e model.Entry) bool { return !e.Held() }
func either(model.Entry) bool    { return true }

// lease draws the lease of a command, and its fence: usually the fence of the
// last grant. The grant has what its entry says of a token and of its time.
func (m *engineMachine) lease(t *rapid.T) (*asker, model.Lease, engine.Grant) {
	a := m.asking(t, held)
	fence := a.fence + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 1, -1}).Draw(t, "fence differs by")
	g := engine.Grant{Pin: m.pin(), Tag: string(a.tag), ID: m.uuids[a.id], Fence: fence}
	g.TTL, g.Until = ms(a.request().TTL), a.until
	if e, there := m.doc.Find(a.tag, a.id); there { // also where an outside writer has put an older one back
		g.Key = m.uuids[e.Key]
		if e.Until != 0 {
			g.Until = time.UnixMilli(e.Until).UTC()
		}
	}
	m.leaving = a.id
	t.Logf("with fence %d", fence)
	return a, model.Lease{Tag: a.tag, ID: a.id, Fence: fence}, g
}

func (m *engineMachine) renew(t *rapid.T) {
	a, l, g := m.lease(t)
	doc, want, _ := m.model.Renew(m.doc, l, a.request().TTL, a.terms.Tolerance, m.now)
	got, err := a.engine.Renew(t.Context(), g)
	m.agrees(t, "renew", doc, want, got, err)
}

func (m *engineMachine) release(t *rapid.T) {
	a, l, g := m.lease(t)
	if rapid.IntRange(0, 4).Draw(t, "by id alone") == 4 {
		l.Fence, g.Fence = 0, 0
	}
	doc, want, _ := m.model.Release(m.doc, l, m.now)
	got, err := a.engine.Release(t.Context(), g)
	if l.Fence == 0 && err == nil && want == model.Released { // see doc.go
		got.Outcome = engine.Released
	}
	m.agrees(t, "release", doc, want, got, err)
}

func (m *engineMachine) write(t *rapid.T) {
	a, l, g := m.lease(t)
	if a.k == 0 || rapid.IntRange(0, 2).Draw(t, "a repeat") < 2 {
		a.k++
	}
	k := rapid.IntRange(max(1, a.k-1), a.k).Draw(t, "number")
	label, update := m.nextUpdate(t)
	doc, want, _ := m.model.Write(m.doc, l, k, label, m.now)
	got, err := a.engine.Write(t.Context(), g, m.parsed(t, a, update), int64(k))
	m.agrees(t, "write", doc, want, got, err)
}

func (m *engineMachine) writeAndRelease(t *rapid.T) {
	a, l, g := m.lease(t)
	label, update := m.nextUpdate(t)
	doc, want, _ := m.model.WriteAndRelease(m.doc, l, label, m.leaves(l, update))
	got, err := a.engine.WriteAndRelease(t.Context(), g, m.parsed(t, a, update))
	m.agrees(t, "write-and-release", doc, want, got, err)
}

// leaves is the time as of which the model is asked for a last write: see doc.go.
func (p *place) leaves(l model.Lease, update any) int64 {
	if e, there := p.doc.Find(l.Tag, l.ID); there && e.Until != 0 && !isPipeline(update) {
		return min(p.now, e.Until-1)
	}
	return p.now
}

func (m *engineMachine) parsed(t *rapid.T, a *asker, update any) *engine.Update {
	u, err := a.engine.ParseUpdate(update)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (m *engineMachine) read(t *rapid.T) {
	p := pick(t, "program", m.programs)
	doc, seen, want := m.model.Read(m.doc, m.now)
	img, err := p.engine.Read(t.Context(), m.pin())
	if doc != nil && doc.Field == model.Foreign {
		if engine.AsFailure(err).Cause != engine.CauseForeign {
			t.Fatalf("read of a foreign lock: %v", err)
		}
		seen = model.ForeignLock
	} else if err != nil {
		t.Fatalf("read: %v", err)
	}
	m.image(t, seen, img, want, m.now)
	m.settle(doc)
}

// guard counts the documents that a guard matches: one if the entry is present
// with its fence, whatever the clock is.
func (m *engineMachine) guard(t *rapid.T) {
	a, l, g := m.lease(t)
	e, there := m.doc.Find(l.Tag, l.ID)
	n, err := m.coll.CountDocuments(t.Context(), a.engine.Guard(g))
	if err != nil {
		t.Fatalf("count: %v", err)
	}
	if want := there && e.Held() && e.Fence == l.Fence; (n == 1) != want || n > 1 {
		t.Fatalf("the guard matches %d documents; the model's document: %v", n, m.doc)
	}
}
