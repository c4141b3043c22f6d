package machine

import (
	"cmp"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
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
	g := engine.Grant{Pin: m.pin(), Entry: engine.Entry{Tag: string(a.tag), ID: m.uuids[a.id], Fence: fence}}
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

// breakEntry removes an entry as an operator does, who has read it, perhaps before it was granted or resumed.
func (m *engineMachine) breakEntry(t *rapid.T) {
	a := m.asking(t, either)
	l := model.Lease{Tag: a.tag, ID: a.id, Fence: a.fence}
	if e, there := m.doc.Find(a.tag, a.id); there && rapid.IntRange(0, 4).Draw(t, "read before") < 4 {
		l.Fence = e.Fence
	}
	doc, want, image := m.model.Break(m.doc, l, m.now)
	before, err := a.engine.RemoveExactly(t.Context(), engine.Exact{Pin: m.pin(), Tag: string(l.Tag), ID: m.uuids[l.ID], Fence: l.Fence})
	got := engine.Answer{Outcome: engine.Released, Image: before}
	if before == nil {
		got.Outcome = engine.Lost
	}
	said := m.agrees(t, "break", doc, want, got, err)
	m.image(t, said, before, image, m.now)
}

// number draws that of a write: the next, the last, or the one before.
func (a *asker) number(t *rapid.T) int {
	if a.k == 0 || rapid.IntRange(0, 2).Draw(t, "a repeat") < 2 {
		a.k++
	}
	return rapid.IntRange(max(1, a.k-1), a.k).Draw(t, "number")
}

func (m *engineMachine) write(t *rapid.T) {
	a, l, g := m.lease(t)
	k := a.number(t)
	label, update := m.nextUpdate(t)
	doc, want, _ := m.model.Write(m.doc, l, k, label, m.now)
	got, err := a.engine.Write(t.Context(), g, m.parsed(t, a, update), int64(k))
	m.agrees(t, "write", doc, want, got, err)
}

func (m *engineMachine) writeAndRelease(t *rapid.T) {
	a, l, g := m.lease(t)
	label, update := m.nextUpdate(t)
	u := m.parsed(t, a, update)
	if can := u.Releases(g); can != (isPipeline(update) || g.Until.IsZero()) {
		t.Fatalf("Releases says %v of %v and %+v", can, update, g)
	} else if !can {
		return
	}
	doc, want, _ := m.model.WriteAndRelease(m.doc, l, label, m.now)
	got, err := a.engine.WriteAndRelease(t.Context(), g, u)
	m.agrees(t, "write-and-release", doc, want, got, err)
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
	doc, seen, want := m.model.Read(m.doc)
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

// token is what a detach has left, or would have left.
type token struct {
	*program
	known  model.Token
	secret uuid.UUID
}

func (k token) engines() engine.Token {
	return engine.Token{Tag: string(k.known.Tag), Secret: k.secret}
}

// shown draws the filter that a token is shown with, and whether it matches the
// document: some demand that there is an update, or that there is none.
func (k token) shown(m *engineMachine, t *rapid.T) (f engine.Filter, matches bool) {
	if rapid.Bool().Draw(t, "the _id alone") {
		return k.filter, true
	}
	updated := m.doc != nil && len(m.doc.Log) > 0
	demanded := updated != (rapid.IntRange(0, 3).Draw(t, "another state") == 0)
	f, err := k.engine.ParseFilter(bson.D{{Key: "_id", Value: m.place.id}, {Key: "log.0", Value: bson.D{{Key: "$exists", Value: demanded}}}})
	if err != nil {
		t.Fatal(err)
	}
	return f, demanded == updated
}

// detach detaches under a new key, or under the one that the entry has.
func (m *engineMachine) detach(t *rapid.T) {
	if len(m.tokens) >= 8 {
		t.Skip("enough tokens")
	}
	a, l, g := m.lease(t)
	e, _ := m.doc.Find(l.Tag, l.ID)
	key, secret := e.Key, uuid.Nil
	if key == 0 {
		key = m.newID()
		secret = m.uuids[key]
		own := engine.Token{Secret: secret}.Key()
		m.ids[own], m.uuids[key] = key, own
	}
	k := token{a.program, model.Token{Tag: a.tag, Key: key}, secret}
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
	if a == nil {
		own := drawTerms(t)
		a = m.newAsker(t, 30, asker{program: k.program, tag: k.known.Tag, token: k.known, own: engine.Terms{TTL: own.TTL, Owner: own.Owner}})
	}
	f, matches := k.shown(m, t)
	r, said := m.sends(t, a), a.request()
	said.Owner = a.own.Owner // else the entry's stays
	doc, want, image := m.model.Resume(m.doc, k.known, said, matches, m.now)
	got, err := a.engine.Resume(t.Context(), f, k.engines(), r)
	seen := m.agrees(t, "resume", doc, want, got, err)
	if seen != model.Granted {
		got.Image = nil // of the read that has found no entry
	}
	m.told(t, a, r, seen, got.Image, image, m.now)
}

func (m *engineMachine) touch(t *rapid.T) {
	k := m.token(t)
	f, matches := k.shown(m, t)
	ttl := rapid.SampledFrom([]int64{k.terms.TTL, 1, 60_000}).Draw(t, "TTL")
	doc, want, _ := m.model.Touch(m.doc, k.known, matches, ttl, k.terms.Tolerance, m.now)
	got, err := k.engine.Touch(t.Context(), f, k.engines(), ms(ttl))
	m.agrees(t, "touch", doc, want, got, err)
}

// convert gives up a lease for one of a tag of the same rules: under a new id,
// or under the id of an earlier conversion of it. It is then a repeat, or a late
// duplicate. The new entry has the owner of the own one.
func (m *engineMachine) convert(t *rapid.T) {
	a, l, g := m.lease(t)
	s := m.convertedTo(t, a)
	k := a.number(t)
	r := engine.Request{Tag: string(s.tag), ID: m.uuids[s.id], Terms: s.own, Document: rapid.Bool().Draw(t, "document")}
	to := s.request()
	if e, there := m.doc.Find(a.tag, a.id); there {
		to.Owner = e.Owner
	}
	doc, want, image := m.model.Convert(m.doc, l, k, to, m.now)
	if m.doc != nil && m.doc.Field == model.Foreign { // see doc.go
		want = model.ForeignLock
	}
	got, err := a.engine.Convert(t.Context(), g, int64(k), r)
	seen := m.agrees(t, "convert", doc, want, got, err)
	m.told(t, s, r, seen, got.Image, image, m.now)
}

func (m *engineMachine) convertedTo(t *rapid.T, a *asker) *asker {
	for _, s := range m.askers {
		if s.from == a && rapid.IntRange(0, 2).Draw(t, "again") == 0 {
			return s.say(t)
		}
	}
	own := drawTerms(t)
	own.Least, own.Owner = 0, ""
	return m.newAsker(t, 30, asker{program: a.program, tag: drawTag(t, a.rules), own: own, from: a})
}

// drawTerms draws the terms of an acquire: often the Locker's own.
func drawTerms(t *rapid.T) engine.Terms {
	if rapid.Bool().Draw(t, "the Locker's terms") {
		return engine.Terms{}
	}
	return engine.Terms{
		TTL:   ms(rapid.SampledFrom([]int64{0, 1000, 30_000}).Draw(t, "own TTL")),
		Owner: rapid.SampledFrom([]string{"", "a job", "$$e.id"}).Draw(t, "own owner"),
		Least: ms(rapid.SampledFrom([]int64{0, 1, 5000, 50_000}).Draw(t, "hold at least")),
		Most:  ms(rapid.SampledFrom([]int64{0, 0, 2000, 60_000}).Draw(t, "hold at most")),
	}
}

// sends is the request of an asker as the engine sends it.
func (m *engineMachine) sends(t *rapid.T, a *asker) engine.Request {
	return engine.Request{Tag: string(a.tag), ID: m.uuids[a.id], Terms: a.own, Document: rapid.Bool().Draw(t, "document")}
}

// request is the same for the model.
func (a *asker) request() model.Request {
	r := a.terms
	r.Tag, r.ID = a.tag, a.id
	r.TTL = cmp.Or(a.own.TTL.Milliseconds(), r.TTL)
	if most := a.own.Most.Milliseconds(); most > 0 {
		r.TTL = min(r.TTL, most)
	}
	r.Owner = cmp.Or(a.own.Owner, r.Owner)
	r.Hold = a.own.Least.Milliseconds()
	return r
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

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
	tag := from.tag
	if rapid.IntRange(0, 2).Draw(t, "another tag") == 2 {
		tag = drawTag(t, from.rules)
	}
	return m.newAsker(t, 30, asker{program: from.program, tag: tag, own: drawTerms(t)}), false
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
	t.Logf("to %d, waiting %v", s.id, waits)
	if rapid.IntRange(0, 2).Draw(t, "without an update") == 2 {
		doc, want, image := m.model.Handoff(m.doc, l, 0, to, m.now)
		got, err := a.engine.Handoff(t.Context(), g, next)
		m.told(t, s, next.Request, m.agrees(t, "handoff", doc, want, got, err), got.Image, image, m.now)
		return
	}
	label, update := m.nextUpdate(t)
	u := m.parsed(t, a, update)
	pipeline := isPipeline(update)
	g.Alone = a.alone
	can, inherits := a.engine.Piggybacks(g, u, next)
	inherited := s.request().TTL == a.request().TTL && s.own.Least == 0 && s.own.Most == 0 && g.Until.IsZero()
	if wantCan := pipeline || !waits && s.tag == a.tag && inherited && g.Alone != 0 && g.Alone+1 < 1<<53; can != wantCan || inherits == pipeline {
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
	got, err := a.engine.WriteAndHandOff(t.Context(), g, u, next)
	m.told(t, s, next.Request, m.agrees(t, command, doc, want, got, err), got.Image, image, m.now)
}
