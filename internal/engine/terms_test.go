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
	if err != nil || standing[ann] != (Standing{Left: time.Minute}) {
		t.Errorf("it stands as %v, %v", standing[ann], err)
	}
}

// Templates are made once for the same terms, and their number is bounded. The
// Locker's own terms have theirs from the start.
func TestTemplatesOfTermsAreBounded(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	by := func(t Terms) Request { return Request{Tag: "write", Terms: t} }
	e.arriving(by(Terms{}))
	e.confirming(by(Terms{Owner: "a job"})) // which a confirm doesn't write
	e.renewing(Grant{TTL: e.Lease("write"), Entry: Entry{Tag: "write"}})
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
