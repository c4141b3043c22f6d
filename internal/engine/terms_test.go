package engine

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
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
	if err != nil || standing[ann] != (Standing{Left: time.Minute}) {
		t.Errorf("it stands as %v, %v", standing[ann], err)
	}
}

// Templates are made once for the same terms, and their number is bounded.
func TestTemplatesAreBounded(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	arriving := func(terms Terms) { e.arriving(Request{Tag: "write", Terms: terms}) }
	for range 2 {
		arriving(Terms{})
		arriving(Terms{TTL: e.Lease("write"), Most: time.Hour}) // the same
		arriving(Terms{TTL: time.Minute})
		e.confirming(Request{Tag: "write"})
		e.confirming(Request{Tag: "write", Terms: Terms{Owner: "a job"}}) // which a confirm doesn't write
		e.renewing(Grant{TTL: e.Lease("write"), Entry: Entry{Tag: "write"}})
	}
	if n := len(e.templates.made); n != 4 {
		t.Errorf("%d templates were made for four commands", n)
	}
	for i := range mostTemplates + 10 {
		owner := fmt.Sprintf("job %d", i)
		if update := e.arriving(Request{Tag: "write", Terms: Terms{Owner: owner}}); !bytes.Contains(update.Value, []byte(owner+"\x00")) {
			t.Fatalf("the template of %q has another owner", owner)
		}
		if n := len(e.templates.made); n > mostTemplates {
			t.Fatalf("%d templates are kept", n)
		}
	}
}
