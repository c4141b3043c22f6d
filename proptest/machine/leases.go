package machine

import (
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"pgregory.net/rapid"
)

// lease is a granted lease, with the validity that it should have.
type lease struct {
	*doclock.Lease
	client   *client
	terms    model.Request // of its acquire
	known    model.Lease
	from     engine.Reading // the start of its validity
	over     model.Outcome  // why it ended: "", Lost or "released before"
	lost     bool           // the server has said so
	k        int            // number of the last write
	alone    int64          // lock.fence at the grant, if no other entry stood beside it
	released bool           // it was released
	verdict  model.Outcome  // the outcome of that
}

// hold takes a granted lease, compares it, and settles the document.
func (m *apiMachine) hold(t *rapid.T, c *client, r model.Request, l *doclock.Lease, doc *model.Document, sent engine.Reading, or ...*model.Document) *lease {
	t.Helper()
	e, there := doc.Find(r.Tag, r.ID)
	if id := m.named(l.ID()); !there || id != r.ID || l.Fence() != e.Fence || l.Tag() != string(r.Tag) {
		t.Fatalf("the lease has id %d, tag %s and fence %d; the model's entry is %+v", id, l.Tag(), l.Fence(), e)
	}
	h := &lease{Lease: l, client: c, terms: r, known: model.Lease{Tag: r.Tag, ID: r.ID, Fence: e.Fence}, from: sent}
	m.leases = append(m.leases, h)
	m.settle(append([]*model.Document{doc}, or...)...)
	if len(m.entries()) == 1 {
		h.alone = m.doc.Lock.Fence
	}
	return h
}

// left is the validity that the holder should have left, by the worse of its
// clocks. The server's clock counts milliseconds, so an entry may end up to one
// earlier than it says. The validity does the same.
func (l *lease) left() time.Duration {
	now := l.client.reading()
	return ms(l.terms.TTL-1) - max(now.Mono-l.from.Mono, now.Wall.Sub(l.from.Wall))
}

// look ends the validity when its time is up.
func (l *lease) look() model.Outcome {
	if l.over == "" && l.left() <= 0 {
		l.over = model.Lost
	}
	return l.over
}

// finish ends it for another reason; the first reason stays.
func (l *lease) finish(why model.Outcome) {
	if l.look() == "" {
		l.over = why
	}
}

// validity compares the validity of every lease.
func (m *apiMachine) validity(t *rapid.T) {
	m.count.Checked(APISteps, 1)
	for _, l := range m.leases {
		m.count.Checked(APIValidity, 1)
		want := l.look()
		if got := kind(l.Err()); got != want {
			t.Fatalf("holder %d has the verdict %q (%v), and should have %q with %v left", l.known.ID, got, l.Err(), want, l.left())
		}
		remaining := l.left()
		if want != "" {
			remaining = 0
		}
		if got := l.Remaining(); got != remaining {
			t.Fatalf("holder %d has %v left, and should have %v", l.known.ID, got, remaining)
		}
		select {
		case <-l.Done():
			if want == "" {
				t.Fatalf("holder %d: Done is closed", l.known.ID)
			}
		default:
			if want != "" {
				t.Fatalf("holder %d: Done is open", l.known.ID)
			}
		}
	}
}

func (m *apiMachine) lease(t *rapid.T) *lease {
	var open []*lease
	for _, l := range m.leases {
		if !l.released {
			open = append(open, l)
		}
	}
	if len(open) > 0 && rapid.IntRange(0, 5).Draw(t, "anybody") < 5 {
		return pick(t, "lease", open)
	}
	if len(m.leases) == 0 {
		t.Skip("no leases yet")
	}
	return pick(t, "lease", m.leases)
}

func (m *apiMachine) renew(t *rapid.T) {
	l := m.lease(t)
	if left := l.left(); l.look() == "" && left < ms(patience) {
		return // too little real time is left
	}
	doc, want := m.doc, l.over
	switch {
	case l.released:
		want = "released before"
	case want == "":
		doc, want, _ = m.model.Renew(m.doc, l.known, l.terms.TTL, apiTolerance, m.now)
		if want == model.Lost {
			l.lost = true
			l.finish(want)
		} else {
			want, l.from = "", l.client.reading()
		}
	}
	t.Logf("renew %d: the model says %q: %v", l.known.ID, want, doc)
	m.outcome(t, "renew", want, l.Renew(t.Context()))
	m.settle(doc)
}

func (m *apiMachine) release(t *rapid.T) {
	l := m.lease(t)
	doc, want := m.doc, l.verdict
	if !l.released {
		doc, want, _ = m.model.Release(m.doc, l.known, m.now)
		switch {
		case l.lost: // it stays lost, though an outside writer may have put it back
			want = model.Lost
		case want == model.Released:
			want = ""
		}
		l.finish("released before")
		l.released, l.verdict = true, want
	}
	t.Logf("release %d: the model says %q: %v", l.known.ID, want, doc)
	m.leaving = l.known.ID
	m.outcome(t, "release", want, l.Release(t.Context()))
	m.settle(doc)
}

func (m *apiMachine) updates(t *rapid.T) {
	l := m.lease(t)
	label, update := m.nextUpdate(t)
	doc, want := m.doc, model.Outcome("released before")
	switch {
	case l.released:
	case l.lost: // nothing is sent
		want = model.Lost
	default:
		l.k++
		doc, want, _ = m.model.Write(m.doc, l.known, l.k, label, m.now)
		want = verdict(want)
		if want != "" {
			l.lost = true
			l.finish(want)
		}
	}
	t.Logf("update %d: the model says %q: %v", l.known.ID, want, doc)
	m.outcome(t, "update", want, l.Update(t.Context(), update))
	m.settle(doc)
}

func (m *apiMachine) updateAndRelease(t *rapid.T) {
	l := m.lease(t)
	label, update := m.nextUpdate(t)
	doc, want := m.doc, model.Outcome("released before")
	if !l.released {
		if l.lost { // then it is a release
			doc, _, _ = m.model.Release(m.doc, l.known, m.now)
			want = model.Lost
		} else {
			doc, want, _ = m.model.WriteAndRelease(m.doc, l.known, label, m.leaves(l.known, update))
			want = verdict(want)
		}
		l.finish("released before")
		l.released, l.verdict = true, want
	}
	t.Logf("update and release %d: the model says %q: %v", l.known.ID, want, doc)
	m.leaving = l.known.ID
	m.outcome(t, "update and release", want, l.UpdateAndRelease(t.Context(), update))
	m.settle(doc)
}

// verdict is the verdict that the caller of a write gets.
func verdict(of model.Outcome) model.Outcome {
	if of == model.Applied {
		return ""
	}
	return model.Lost
}

func (m *apiMachine) guard(t *rapid.T) {
	l := m.lease(t)
	e, there := m.doc.Find(l.known.Tag, l.known.ID)
	m.matches(t, l.Guard(), !l.released && there && e.Fence == l.known.Fence)
}

// downgrade gives up a lease for one of a tag of the same rules.
func (m *apiMachine) downgrade(t *rapid.T) {
	if len(m.leases)+len(m.tickets) >= 25 {
		t.Skip("enough")
	}
	l := m.lease(t)
	r := l.client.terms
	r.TTL = l.terms.TTL
	r.Tag, r.ID = drawTag(t, l.client.rules), model.ID(len(m.ids)+1)
	own, there := m.doc.Find(l.known.Tag, l.known.ID)
	if there {
		r.Owner = own.Owner
	}
	doc, want := m.doc, model.Outcome("released before")
	switch {
	case l.released:
	case l.lost: // nothing is sent
		want = model.Lost
	case m.doc != nil && m.doc.Field == model.Foreign:
		t.Skip("see open.go")
	default:
		l.k++
		doc, want, _ = m.model.Downgrade(m.doc, l.known, l.k, r, m.now)
		if want == model.Lost {
			l.lost = true
			l.finish(want)
		}
	}
	t.Logf("downgrade %d to %s: the model says %q: %v", l.known.ID, r.Tag, want, doc)
	sent := l.client.reading()
	next, err := l.Downgrade(t.Context(), string(r.Tag))
	if want == model.Granted {
		m.outcome(t, "downgrade", "", err)
		l.finish("released before")
		l.released = true
		m.hold(t, l.client, r, next, doc, sent)
		return
	}
	if next != nil {
		t.Fatal("an error and a lease")
	}
	m.outcome(t, "downgrade", want, err)
	m.settle(doc)
	if want == model.Conflict && own.Until <= m.now {
		stored := m.doc
		m.doc = without(stored, l.known)
		m.conflict(t, err, r, nil)
		m.doc = stored
	}
}

// without is the document without a lease's entry.
func without(d *model.Document, l model.Lease) *model.Document {
	c := copied(d)
	for i, b := range c.Lock.Tags {
		if b.Tag == l.Tag {
			c.Lock.Tags[i].Entries = slices.DeleteFunc(b.Entries, func(e model.Entry) bool { return e.ID == l.ID })
		}
	}
	return c
}
