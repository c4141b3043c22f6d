package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"pgregory.net/rapid"
)

type engineMachine struct {
	*place
	programs []*program
	askers   []*asker
	tokens   []token
}

// program is a user of one set of rules. A second one on the same document uses
// tags that the first doesn't know.
type program struct {
	rules  model.Rules
	engine *engine.Engine
	terms  model.Request // all but tag and id
	filter engine.Filter
}

// asker is one id: an entry that was, or may be, requested under one tag.
type asker struct {
	*program
	tag   model.Tag
	id    model.ID
	fence int64     // the fence of its last grant
	k     int       // number of its last write
	alone int64     // lock.fence in the image of the grant, if it was the only entry there
	until time.Time // in the image of the grant

	own   engine.Terms // of its acquires
	token model.Token  // by which it was resumed; zero for an acquire
	from  *asker       // whose conversion made it, or nil
}

func run(t *rapid.T, coll *mongo.Collection, count *tally.Tally) {
	m := &engineMachine{place: newPlace(t, coll, count)}
	rules := drawRules(t)
	m.programs = append(m.programs, m.newProgram(t, rules))
	if rapid.Bool().Draw(t, "a second program") {
		m.programs = append(m.programs, m.newProgram(t, drawOther(t, rules)))
	}
	actions := map[string]func(*rapid.T){
		"":                  func(*rapid.T) { m.count.Checked(EngineSteps, 1) },
		"acquire":           m.acquire,
		"acquire anew":      m.acquireAnew,
		"acquire, too":      m.acquireAnew,
		"acquire again":     m.acquireAgain,
		"claim":             m.claim,
		"confirm":           m.confirm,
		"confirm, too":      m.confirm,
		"renew":             m.renew,
		"release":           m.release,
		"release, too":      m.release,
		"write":             m.write,
		"write and release": m.writeAndRelease,
		"read":              m.read,
		"guard":             m.guard,
		"detach":            m.detach,
		"resume":            m.resume,
		"resume, too":       m.resume,
		"touch":             m.touch,
		"convert":           m.convert,
		"break":             m.breakEntry,
		"time":              m.advance,
		"time, too":         m.advance,
		"outside writer":    m.outsideWrite,
	}
	if rapid.Bool().Draw(t, "handoffs") {
		for _, name := range []string{"hand over", "hand over, too", "hand over, anew", "hand over, again"} {
			actions[name] = m.handoff
		}
	}
	t.Repeat(actions)
}

func (m *engineMachine) newProgram(t *rapid.T, rules relations.Rules) *program {
	p := &program{rules: modelRules(rules)}
	p.terms = model.Request{
		Rules:     p.rules,
		Owner:     rapid.SampledFrom([]string{"host/1/program", "$fence", "$$NOW", "{}"}).Draw(t, "owner"),
		TTL:       rapid.SampledFrom([]int64{10_000, 3000}).Draw(t, "TTL"),
		WaitTTL:   rapid.SampledFrom([]int64{2000, 15_000}).Draw(t, "WaitTTL"),
		Tolerance: rapid.SampledFrom([]int64{500, 0}).Draw(t, "tolerance"),
		Upsert:    rapid.IntRange(0, 3).Draw(t, "upsert") == 3,
	}
	t.Logf("a program with rules %v; TTL %d, waiting %d, tolerance %d, upsert %v", p.rules, p.terms.TTL, p.terms.WaitTTL, p.terms.Tolerance, p.terms.Upsert)
	var err error
	p.engine, err = engine.New(m.coll, rules, engine.Config{
		Terms:     engine.Terms{TTL: ms(p.terms.TTL), Owner: p.terms.Owner},
		WaitTTL:   ms(p.terms.WaitTTL),
		Tolerance: ms(p.terms.Tolerance),
		Field:     engine.DefaultField,
		Upsert:    p.terms.Upsert,
		Now:       m.time,
	})
	if err == nil {
		filter := m.place.filter()
		p.filter, err = p.engine.ParseFilter(filter)
		filter["_id"] = "of another call" // as a caller may
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asking draws an asker: usually one whose entry is in the document.
func (m *engineMachine) asking(t *rapid.T, want func(model.Entry) bool) *asker {
	var there []*asker
	for _, a := range m.askers {
		if e, ok := m.doc.Find(a.tag, a.id); ok && want(e) {
			there = append(there, a)
		}
	}
	return usually(t, there, m.askers).say(t)
}

// arrives says whether an acquire or a handoff may use the id. A resume and a
// conversion make ids of their own, which no other command brings into a document.
func (a *asker) arrives() bool { return a.token == (model.Token{}) && a.from == nil }

func (a *asker) say(t *rapid.T) *asker {
	t.Logf("asker %d under %s, terms %v, last fence %d", a.id, a.tag, a.own, a.fence)
	return a
}

func (m *engineMachine) acquireAnew(t *rapid.T) {
	p := pick(t, "program", m.programs)
	m.ask(t, m.newAsker(t, 20, asker{program: p, tag: drawTag(t, p.rules), own: drawTerms(t)}))
}

// newAsker has an id of its own. No more come once there are most.
func (m *engineMachine) newAsker(t *rapid.T, most int, a asker) *asker {
	if len(m.askers) >= most {
		t.Skip("enough askers")
	}
	a.id = m.newID()
	m.askers = append(m.askers, &a)
	return a.say(t)
}

// acquire and acquireAgain differ in the share of repeats.
func (m *engineMachine) acquire(t *rapid.T) {
	if len(m.askers) == 0 || rapid.Bool().Draw(t, "anew") {
		m.acquireAnew(t)
		return
	}
	m.acquireAgain(t)
}

func (m *engineMachine) acquireAgain(t *rapid.T) {
	a := m.asking(t, either)
	if !a.arrives() {
		t.Skip("no acquire has this id")
	}
	m.ask(t, a)
}

func (m *engineMachine) ask(t *rapid.T, a *asker) {
	mode := pick(t, "mode", []model.Mode{model.Queue, model.Queue, model.Try})
	r, said, command := m.sends(t, a), a.request(), "acquire"
	r.Try = mode == model.Try
	own, repeat := m.doc.Find(a.tag, a.id)
	if (!repeat || own.Held()) && rapid.IntRange(0, 2).Draw(t, "takes over") == 0 { // the id of a take-over never waits
		said.TakeOver, r.TakeOver = m.named(t)
		command = "take-over"
	}
	doc, want, image := m.model.Acquire(m.doc, said, mode, m.now)
	got, err := a.engine.Acquire(t.Context(), a.filter, r)
	seen := m.agrees(t, command, doc, want, got, err)
	if repeat && want != model.ForeignLock {
		m.count.Seen(command+": repeat", 1)
	}
	m.told(t, a, r, seen, got.Image, image, m.now)
}

// named draws the entries that a take-over names: some that are there, often as they are, and
// some as they were, or may be later.
func (m *engineMachine) named(t *rapid.T) ([]model.Lease, []engine.Entry) {
	leases, entries := []model.Lease{}, []engine.Entry{}
	for tag, e := range m.doc.All() {
		if e.ID < 0 || rapid.Bool().Draw(t, "passes it over") { // the id of a remainder is random
			continue
		}
		if rapid.IntRange(0, 4).Draw(t, "another fence") == 4 {
			e.Fence = rapid.SampledFrom([]int64{0, e.Fence + 1, e.Seq}).Draw(t, "fence")
		}
		leases = append(leases, model.Lease{Tag: tag, ID: e.ID, Fence: e.Fence})
		entries = append(entries, engine.Entry{ID: m.uuids[e.ID], Fence: e.Fence})
	}
	t.Logf("takes over %v", leases)
	return leases, entries
}

// claim claims the document, or any but that. A look-up before it, and one for its id after
// it, show the same.
func (m *engineMachine) claim(t *rapid.T) {
	if m.now <= 0 || m.now >= 1<<52 {
		t.Skip("its failure is that of an acquire")
	}
	p := pick(t, "program", m.programs)
	a := m.newAsker(t, 20, asker{program: p, tag: drawTag(t, p.rules), own: drawTerms(t)})
	r := m.sends(t, a)
	doc, want, image := m.model.Claim(m.doc, a.request(), m.now)
	shows := func(past []engine.Pin) []engine.Pin {
		shown, err := p.engine.Candidates(t.Context(), p.filter, r.Tag, past, 2)
		if err != nil || (len(shown) == 1) != (want == model.Granted) {
			t.Fatalf("the look-up shows %v (%v); the model says %s; document: %v", shown, err, want, m.doc)
		}
		return shown
	}
	past := shows(nil)
	if rapid.IntRange(0, 5).Draw(t, "passes over it") == 5 && len(past) > 0 {
		doc, want, image = m.doc, model.NotFound, nil
		shows(past)
	} else {
		past = nil
	}
	command, got, err := "claim", engine.Answer{}, error(nil)
	if past == nil && rapid.Bool().Draw(t, "in a batch") {
		command = "batch"
		got, err = m.batch(t, p, r)
	} else {
		got, err = p.engine.Claim(t.Context(), p.filter, r, past)
	}
	seen := m.agrees(t, command, doc, want, got, err)
	m.told(t, a, r, seen, got.Image, image, m.now)
	if m.doc != nil && m.doc.Field == model.Foreign {
		return
	}
	if found, err := p.engine.Claimed(t.Context(), p.filter, r); err != nil || (found != nil) != (seen == model.Granted) {
		t.Fatalf("a look-up of the id shows %v (%v); the claim was %s", found, err, seen)
	}
}

// batch claims the document and one that isn't there, and reads what it has got.
func (m *engineMachine) batch(t *rapid.T, p *program, r engine.Request) (engine.Answer, error) {
	t.Log("in a batch")
	pins := []engine.Pin{{{Key: "_id", Value: bson.RawValue{Type: bson.TypeBoolean, Value: []byte{0}}}}, p.filter.Pin}
	made, _, err := p.engine.ClaimAll(t.Context(), p.filter, r, pins)
	if err != nil || made == 0 {
		return engine.Answer{Outcome: engine.NotFound}, err
	}
	answers, err := p.engine.ClaimedOf(t.Context(), r, pins, rapid.Bool().Draw(t, "with proof"))
	if err == nil && (made != 1 || answers[0].Outcome != engine.NotFound) {
		t.Fatalf("a batch of one document has made %d entries: %v", made, answers)
	}
	return answers[1], err
}

func (m *engineMachine) confirm(t *rapid.T) {
	a := m.asking(t, waiting)
	r := m.sends(t, a)
	e, there := m.doc.Find(a.tag, a.id)
	doc, want, image := m.model.Confirm(m.doc, a.request(), m.now)
	got, err := a.engine.Confirm(t.Context(), a.filter, m.pin(), r)
	seen := m.agrees(t, "confirm", doc, want, got, err)
	if there && e.Held() {
		m.count.Seen("confirm: repeat", 1)
	}
	m.told(t, a, r, seen, got.Image, image, m.now)
}

// agrees compares the outcome, in the model's words, and the stored document with the model's.
func (m *engineMachine) agrees(t *rapid.T, command string, doc *model.Document, want model.Outcome, got engine.Answer, err error) model.Outcome {
	t.Helper()
	t.Logf("%s: the model says %s: %v", command, want, doc)
	said := model.Outcome(got.Outcome.String())
	name := string(want)
	if want == model.NotApplied { // this is Lost where nothing was repeated
		want = model.Lost
	}
	before := m.doc
	if before == nil { // an upsert has made it
		before = &model.Document{}
	}
	exhausted := want == model.Conflict && before.Exhausted(m.now)
	if exhausted { // refused because no fence is left
		want = model.ForeignLock
		m.count.Seen("no fence is left", 1)
	}
	if err != nil {
		f := engine.AsFailure(err)
		if f.Cause != engine.CauseForeign && (!exhausted || f.Cause != engine.CauseUnsupported) || !f.Nothing {
			t.Fatalf("%s: %v", command, err)
		}
		said = model.ForeignLock
	}
	m.count.Checked(EngineOutcomes, 1)
	if said != want {
		t.Fatalf("%s at %d: the engine says %q, the model %q; document: %v", command, m.now-epoch, said, want, m.doc)
	}
	if said == model.ForeignLock {
		name = "foreign"
	}
	m.count.Seen(command+": "+name, 1)
	m.settle(doc)
	return said
}

// told compares the image of an outcome, and remembers the fence.
func (m *engineMachine) told(t *rapid.T, a *asker, r engine.Request, said model.Outcome, img *engine.Image, want *model.Document, now int64) {
	t.Helper()
	m.image(t, said, img, want, now)
	if said != model.Granted {
		return
	}
	e, _ := img.Lock.Find(string(a.tag), m.uuids[a.id])
	a.fence, a.until = e.Fence, e.Until
	a.alone = 0
	if len(img.Lock.Entries) == 1 {
		a.alone = m.doc.Lock.Fence
	}
	var newest uuid.UUID
	if done := img.Lock.Done; len(done) > 0 {
		newest = done[len(done)-1]
	}
	if g := a.engine.Grant(img, r); g.Fence != e.Fence || g.Alone != a.alone || g.LastDone != newest || g.TTL != ms(a.request().TTL) || !g.Until.Equal(e.Until) {
		t.Fatalf("the grant is %+v; document: %v", g, m.doc)
	}
	if !r.Document {
		return
	}
	var whole bson.M
	if err := a.engine.Decode(img, &whole); err != nil {
		t.Fatalf("decode the document as of the grant: %v", err)
	}
	if _, has := whole["lock"]; has || whole["_id"] != m.place.id || (len(want.Log) > 0) != (whole["log"] != nil) {
		t.Fatalf("the document as of the grant is %v", whole)
	}
}

// image compares an image with the model's, and with the server's time.
func (m *engineMachine) image(t *rapid.T, said model.Outcome, img *engine.Image, want *model.Document, now int64) {
	t.Helper()
	m.count.Checked(EngineImages, 1)
	if said == model.ForeignLock {
		return
	}
	if (img == nil) != (want == nil) {
		t.Fatalf("the image is %v, the model's is of %v", img, want)
	}
	if img == nil {
		return
	}
	if img.Now.UnixMilli() != now {
		t.Fatalf("the image's time is %v, the server's %d", img.Now, now)
	}
	lock := model.Lock{Fence: img.Lock.Fence, Broken: img.Lock.Broken}
	for _, id := range img.Lock.Done {
		lock.Done = append(lock.Done, m.ids[id])
	}
	if want.Lock.Fence != lock.Fence || want.Lock.Broken != lock.Broken || !slices.Equal(want.Lock.Done, lock.Done) {
		t.Fatalf("the image is %+v, the model's %v", img.Lock, want)
	}
	got := map[model.Tag][]model.Entry{}
	for _, e := range img.Lock.Entries {
		got[model.Tag(e.Tag)] = append(got[model.Tag(e.Tag)], m.shown(e))
	}
	wanted := map[model.Tag][]model.Entry{}
	for tag, e := range want.All() {
		wanted[tag] = append(wanted[tag], e)
	}
	if !maps.EqualFunc(wanted, got, slices.Equal) {
		t.Fatalf("the image (-model +engine):\n%s", cmp.Diff(wanted, got))
	}
}
