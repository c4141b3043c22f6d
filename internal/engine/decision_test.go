package engine

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	cooperative = relations.Relation{Kind: relations.Cooperative}
	assertive   = relations.Relation{Kind: relations.Assertive}
)

// The rules that a short run of proptest/machine doesn't surely show broken; that
// package shows the others, in lockstep with the model.

// Rule 6. A confirm is blocked by cooperative relations too. Without it a
// waiter is granted beside a holder that ignores it.
func TestRule06ConfirmRespectsCooperative(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Rules{
		"read":   {},
		"upkeep": {}, // ignores a waiting write
		"write":  {"read": assertive, "upkeep": cooperative},
	})
	a := p.acquire(ann, "read", Granted)
	b := p.acquire(bob, "write", Waiting)
	c := p.acquire(cid, "upkeep", Granted)
	p.release(a, Released)
	p.confirm(b, Waiting)
	p.release(c, Released)
	p.confirm(b, Granted)
}

// Rule 9. Held or earlier, unknown tags block a confirm. Without it an unknown
// tag that arrives during the wait is overlooked.
func TestRule09UnknownTagsBlockConfirms(t *testing.T) {
	t.Parallel()
	ours := relations.Fair()
	theirs := relations.Rules{
		"read": ours["read"], "write": ours["write"],
		"audit": {},                                      // ignores all tags
		"index": {"read": assertive, "index": assertive}, // ignores a waiting write
	}
	forked(t, "held", func(w *world) {
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		b := we.acquire(bob, "write", Waiting)
		c := they.acquire(cid, "audit", Granted)
		we.release(a, Released)
		img := we.ask(b, Request{Tag: "write", ID: bob}, Waiting)
		own, _ := img.Lock.Find("write", bob)
		if entries, free := we.InTheWay(img, "write", &own); len(entries) != 1 || entries[0].ID != cid || free != held {
			w.Errorf("in the way: %+v, for %v", entries, free)
		}
		they.release(c, Released)
		we.confirm(b, Granted)
	})
	forked(t, "waiting, later", func(w *world) {
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		b := we.acquire(bob, "write", Waiting)
		they.acquire(cid, "index", Waiting)
		we.release(a, Released)
		we.confirm(b, Granted)
	})
	forked(t, "waiting, earlier", func(w *world) {
		we, they := w.peer(ours), w.peer(theirs)
		a := we.acquire(ann, "read", Granted)
		c := they.acquire(cid, "index", Waiting)
		b := they.acquire(bob, "write", Waiting) // bob's program will have older rules
		we.release(a, Released)
		we.confirm(b, Waiting)
		they.confirm(c, Granted)
		we.confirm(b, Waiting)
	})
}

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
	if err != nil || standing[0] != (Standing{Left: time.Minute}) {
		t.Errorf("it stands as %v, %v", standing, err)
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
	if n := len(e.templates); n != 4 {
		t.Errorf("%d templates were made for four commands", n)
	}
	for i := range mostTemplates + 10 {
		owner := fmt.Sprintf("job %d", i)
		if update := e.arriving(Request{Tag: "write", Terms: Terms{Owner: owner}}); !bytes.Contains(update.Value, []byte(owner+"\x00")) {
			t.Fatalf("the template of %q has another owner", owner)
		}
		if n := len(e.templates); n > mostTemplates {
			t.Fatalf("%d templates are kept", n)
		}
	}
}

// damage is what an outside writer has done to a lock, and what a command makes of it.
type damage struct {
	change  bson.M
	foreign bool
	want    Outcome
}

// inADamagedLock sends a command of a holder who has detached: no operator raises an
// error, and a lock that is not ours stays as it is.
func inADamagedLock(t *testing.T, cases map[string]damage, send func(*peer, Grant) (Answer, error)) {
	t.Helper()
	for name, c := range cases {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			g := p.acquire(ann, "write", Granted)
			p.detach(g, Detached)
			w.Change(c.change)
			before := w.Stored()
			got, err := send(p, g)
			if c.foreign {
				if f := AsFailure(err); f.Cause != CauseForeign || !f.Nothing || !bytes.Equal(before, w.Stored()) {
					w.Errorf("%v, %v", f.Cause, err)
				}
			} else if err != nil || got.Outcome != c.want {
				w.Errorf("%v, %v; want %v", got.Outcome, err, c.want)
			}
		})
	}
}

// A damaged lock is converted, or stays as it is.
func TestConversionInADamagedLock(t *testing.T) {
	t.Parallel()
	inADamagedLock(t, map[string]damage{
		"no fence":             {bson.M{"$unset": bson.M{"lock.fence": 1}}, false, Granted},
		"a null fence":         {bson.M{"$set": bson.M{"lock.fence": nil}}, false, Granted},
		"a text fence":         {bson.M{"$set": bson.M{"lock.fence": "x"}}, true, Lost},
		"another tag":          {bson.M{"$set": bson.M{"lock.tags.x": "y"}}, true, Lost},
		"a tag of no array":    {bson.M{"$set": bson.M{"lock.tags.read": "y"}}, true, Lost},
		"a null tag":           {bson.M{"$set": bson.M{"lock.tags.read": nil}}, false, Granted},
		"no tags":              {bson.M{"$unset": bson.M{"lock.tags": 1}}, false, Lost},
		"null tags":            {bson.M{"$set": bson.M{"lock.tags": nil}}, false, Lost},
		"text for a lock":      {bson.M{"$set": bson.M{"lock": "x"}}, true, Lost},
		"no lock":              {bson.M{"$unset": bson.M{"lock": 1}}, false, Lost},
		"an odd number":        {bson.M{"$set": bson.M{"lock.tags.write.0.n": "many"}}, false, Conflict},
		"an odd time":          {bson.M{"$set": bson.M{"lock.tags.write.0.until": bson.M{}}}, false, Granted},
		"an odd owner":         {bson.M{"$set": bson.M{"lock.tags.write.0.owner": bson.A{"$x"}}}, false, Granted},
		"no owner":             {bson.M{"$unset": bson.M{"lock.tags.write.0.owner": 1}}, false, Granted},
		"an unknown empty tag": {bson.M{"$set": bson.M{"lock.tags.x": bson.A{}}}, false, Granted},
	}, func(p *peer, g Grant) (Answer, error) {
		g.Key = key
		return p.Convert(p.Context(), g, 1, Request{Tag: "read", ID: bob})
	})
}
