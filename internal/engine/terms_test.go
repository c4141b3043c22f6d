package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// An acquire's own TTL and owner are in its entry, and later commands go by that
// TTL, also a repeat.
func TestTermsOfAnAcquire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	r := Request{Tag: "write", ID: ann, Terms: Terms{TTL: time.Minute, Owner: "$a job"}}
	g := p.granted(r, Granted)
	if g.TTL != time.Minute || !g.Until.IsZero() || g.Key != uuid.Nil {
		t.Errorf("the grant is %+v", g)
	}
	entry := row{id: ann, owner: "$a job", seq: n0, fence: n0, expires: time.Minute + extra}
	w.is(stored{fence: n0, tags: rows{"write": {entry}}})

	for i, extend := range []func(){
		func() { p.renew(g, Renewed) },
		func() { p.granted(r, Granted) },
		func() {
			if got, err := p.RenewAll(t.Context(), []Grant{g}); got.Outcome != Renewed || err != nil {
				t.Errorf("%v, %v", got.Outcome, err)
			}
		},
		func() {
			if got, err := p.Look(t.Context(), g, false); got.Outcome != Renewed || err != nil {
				t.Errorf("%v, %v", got.Outcome, err)
			}
		},
	} {
		now := time.Duration(i+1) * second
		w.at(now)
		extend()
		entry.expires = now + time.Minute + extra
		w.is(stored{fence: n0, tags: rows{"write": {entry}}})
	}
	standing, _, err := p.Standing(t.Context(), []Grant{g})
	if err != nil || standing[ann] != time.Minute {
		t.Errorf("it stands for %v, %v", standing[ann], err)
	}
}

// A waiting entry lives for the Locker's WaitTTL. It is granted with its own TTL.
func TestTermsOfAWaitingEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	first := p.acquire(ann, "write", Granted)
	r := Request{Tag: "write", ID: bob, Terms: Terms{TTL: time.Minute, Owner: "a job"}}
	g := p.granted(r, Waiting)
	waiting := row{id: bob, owner: "a job", seq: n0 + 1, expires: waits}
	w.is(stored{fence: n0 + 1, tags: rows{"write": {{id: ann, seq: n0, fence: n0, expires: held}, waiting}}})
	p.release(first, Released)
	w.at(second)
	p.ask(g, r, Granted)
	waiting.fence, waiting.expires = n0+1000, second+time.Minute+extra
	w.is(stored{fence: n0 + 1000, tags: rows{"write": {waiting}}})
}

// A successor's own terms are in its entry, whichever handoff grants it.
func TestTermsOfASuccessor(t *testing.T) {
	t.Parallel()
	terms := Terms{TTL: time.Minute, Owner: "a job", Least: 2 * time.Minute}
	want := row{id: bob, owner: "a job", seq: n0 + 1, fence: n0 + 1, expires: 2*time.Minute + extra, until: 2*time.Minute + extra}
	for name, hand := range map[string]func(*peer, Grant, Successor) Grant{
		"handoff": func(p *peer, g Grant, s Successor) Grant { return p.handoff(g, s, Granted) },
		"pipeline": func(p *peer, g Grant, s Successor) Grant {
			return p.writeAndHandOff(g, increments["pipeline"], s, Granted)
		},
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Exclusive())
			s := successor(bob, "write")
			s.Terms = terms
			g := hand(p, p.acquire(ann, "write", Granted), s)
			if g.TTL != time.Minute || !g.Until.Equal(epoch.Add(2*time.Minute+extra)) {
				w.Errorf("the grant is %+v", g)
			}
			lock := stored{fence: n0 + 1, tags: rows{"write": {want}}}
			if name == "pipeline" {
				lock.done = []uuid.UUID{ann}
			}
			w.is(lock)
		})
	}
	forked(t, "waiting", func(w *world) {
		p := w.peer(relations.Fair())
		g := p.acquire(ann, "write", Granted)
		r := Request{Tag: "write", ID: bob, Terms: terms}
		p.granted(r, Waiting)
		p.handoff(g, Successor{Request: r, Waiting: true}, Granted)
		want := want
		want.fence = n0 + 2
		w.is(stored{fence: n0 + 2, tags: rows{"write": {want}}})
	})
}

// A compare-and-set writes the successor's owner. It can't change the expiry, so
// it needs the same TTL, and no time that must be computed from the clock.
func TestRule17TermsOfASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive(), func(c *Config) { c.TagTTL = map[string]time.Duration{"write": ttl} })
	g := p.granted(Request{Tag: "write", ID: ann, Terms: Terms{TTL: ttl}}, Granted)
	u := p.parsed(increments["classic"])
	kept, longer := g, g
	kept.Until, longer.TTL = epoch.Add(held), 2*ttl
	for _, c := range []struct {
		name  string
		g     Grant
		terms Terms
		can   bool
	}{
		{"none", g, Terms{}, true},
		{"the same TTL", g, Terms{TTL: ttl}, true},
		{"another owner", g, Terms{Owner: "a job"}, true},
		{"another TTL", g, Terms{TTL: ttl + 1}, false},
		{"the same longer TTL", longer, Terms{TTL: 2 * ttl}, true},
		{"from a longer TTL", longer, Terms{}, false},
		{"hold at least", g, Terms{Least: 1}, false},
		{"from hold at least", kept, Terms{}, false},
	} {
		s := successor(bob, "write")
		s.Terms = c.terms
		if can, _ := p.Piggybacks(c.g, u, s); can != c.can {
			t.Errorf("%s: %v", c.name, can)
		}
	}
	s := successor(bob, "write")
	s.Terms.Owner = "a job"
	w.at(second)
	p.writeAndHandOff(g, increments["classic"], s, Granted)
	w.is(stored{fence: n0 + 1, tags: rows{"write": {
		{id: bob, owner: "a job", seq: n0 + 1, fence: n0 + 1, since: second, expires: held},
	}}, done: []uuid.UUID{ann}})
}

// Templates are made once for the same terms, and their number is bounded. The
// Locker's own terms have theirs from the start.
func TestTemplatesOfTermsAreBounded(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	by := func(t Terms) Request { return Request{Tag: "write", Terms: t} }
	e.arriving(by(Terms{}))
	e.confirming(by(Terms{Owner: "a job"})) // which a confirm doesn't write
	e.renewing(Grant{Tag: "write", TTL: e.Lease("write")})
	if n := len(e.terms.made); n != 0 {
		t.Errorf("%d templates were made for the Locker's own terms", n)
	}
	minute := e.arriving(by(Terms{TTL: time.Minute}))
	if again := e.arriving(by(Terms{TTL: time.Minute})); again != minute {
		t.Error("the same template was made twice")
	}
	for i := range 10 * mostTemplates {
		owner := fmt.Sprintf("job %d", i)
		made := e.arriving(by(Terms{Owner: owner}))
		if !slices.Contains(texts(bson.RawArray(made.data)), owner) {
			t.Fatalf("the template of %q has another owner", owner)
		}
		if n := len(e.terms.made); n > mostTemplates {
			t.Fatalf("%d templates are kept", n)
		}
	}
}

// texts are all strings in an array, at any depth.
func texts(doc bson.RawArray) (all []string) {
	values, _ := doc.Values()
	for _, v := range values {
		if text, ok := v.StringValueOK(); ok {
			all = append(all, text)
		} else if array, ok := v.ArrayOK(); ok {
			all = append(all, texts(array)...)
		} else if doc, ok := v.DocumentOK(); ok {
			all = append(all, texts(bson.RawArray(doc))...)
		}
	}
	return all
}
