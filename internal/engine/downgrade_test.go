package engine

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// downgrade sends a downgrade and checks its outcome.
func (p *peer) downgrade(g Grant, k int64, tag string, id uuid.UUID, want Outcome) Grant {
	p.Helper()
	r := Request{Tag: tag, ID: id}
	img := p.image("downgrade", r, want, func(ctx context.Context) (Answer, error) { return p.Downgrade(ctx, g, k, r) })
	return p.Grant(img, r)
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	r := Request{Tag: "write", ID: ann, Terms: Terms{Owner: "a job"}}
	a := p.granted(r, Granted)
	p.write(a, bson.M{"$set": bson.M{"text": "hi"}}, 1, Applied)
	w.at(4 * second)
	p.downgrade(a, 2, "read", bob, Granted)
	mine := row{id: bob, owner: "a job", seq: n0 + 4000, fence: n0 + 4000, since: 4 * second, expires: 4*second + held}
	w.is(stored{fence: n0 + 4000, tags: rows{"read": {mine}}})
	w.at(5 * second)
	b := p.downgrade(a, 2, "read", bob, Granted) // a repeat
	mine.expires = 5*second + held
	w.is(stored{fence: n0 + 4000, tags: rows{"read": {mine}}})
	p.release(a, Lost)
	p.write(b, bson.M{"$set": bson.M{"text": "ho"}}, 1, Applied)
	p.downgrade(a, 2, "read", cid, Lost)
	p.try(dan, "read", Granted)
	p.release(b, Released)
}

// A refused downgrade leaves the lease as it is, but for the number.
func TestDowngradeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	w.at(second)
	p.downgrade(a, 1, "write", cid, Conflict)
	want := stored{fence: n0 + 1, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: held, n: 1},
		{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held},
	}}}
	w.is(want)
	p.downgrade(a, 1, "write", cid, Conflict) // a repeat
	w.is(want)
	p.write(a, bson.M{"$set": bson.M{"text": "hi"}}, 1, Lost)
	p.write(a, bson.M{"$set": bson.M{"text": "hi"}}, 2, Applied)
	p.release(a, Released)
}

// A downgrade to the tag that the lease has gives it another id.
func TestDowngradeToTheSameTag(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	a := p.acquire(ann, "write", Granted)
	b := p.downgrade(a, 1, "write", bob, Granted)
	p.release(a, Lost)
	p.release(b, Released)
}

// The new entry is kept for its tag's TTL, or for the request's.
func TestDowngradeKeepsForTheTTL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair(), func(c *Config) { c.TagTTL = map[string]time.Duration{"read": 3 * ttl} })
	b := p.downgrade(p.acquire(ann, "write", Granted), 1, "read", bob, Granted)
	if b.TTL != 3*ttl {
		t.Errorf("the grant's TTL is %v", b.TTL)
	}
	w.is(stored{fence: n0 + 1, tags: rows{"read": {{id: bob, seq: n0 + 1, fence: n0 + 1, expires: 3*ttl + extra}}}})
}

func TestDowngradeShowsTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "write", Granted)
	got, err := p.Downgrade(t.Context(), a, 1, Request{Tag: "read", ID: bob, Document: true})
	if err != nil {
		t.Fatal(err)
	}
	var back bson.Raw
	if err := p.Decode(got.Image, &back); err != nil || !bytes.Equal(back, p.users()) {
		t.Errorf("%v, %v; in the document: %v", back, err, p.users())
	}
}

func TestDowngradeOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "write", Granted)
	waits := p.acquire(bob, "read", Waiting)
	before := w.Stored()
	p.downgrade(waits, 1, "write", cid, Lost)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	w.Delete()
	p.plain("downgrade", a, Lost, func(ctx context.Context) (Answer, error) {
		return p.Downgrade(ctx, a, 1, Request{Tag: "read", ID: cid})
	})
}

// A damaged lock is downgraded, or stays as it is. No operator raises an error.
func TestDowngradeInADamagedLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage  bson.M
		foreign bool
		want    Outcome
	}{
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
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			a := p.acquire(ann, "write", Granted)
			w.Change(c.damage)
			before := w.Stored()
			got, err := p.Downgrade(w.Context(), a, 1, Request{Tag: "read", ID: bob})
			if c.foreign {
				if f := AsFailure(err); f.Cause != CauseForeign || !f.Certain || !bytes.Equal(before, w.Stored()) {
					w.Errorf("%v, %v", f.Cause, err)
				}
				return
			}
			if err != nil || got.Outcome != c.want {
				w.Fatalf("%v, %v; want %v", got.Outcome, err, c.want)
			}
		})
	}
}
