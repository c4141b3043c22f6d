package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// key is that of the tests' token.
var key = named("key")

// token is the token of a grant that was detached with the key.
func token(g Grant) Token { return Token{Pin: g.Pin, Tag: g.Tag, Key: key, TTL: ttl} }

// detach sends a detach and checks its outcome.
func (p *peer) detach(g Grant, want Outcome) Token {
	p.Helper()
	p.untouched("detach", func() {
		p.plain("detach", g, want, func(ctx context.Context) (Answer, error) { return p.Detach(ctx, g, key) })
	})
	return token(g)
}

// resume sends a resume, which is granted.
func (p *peer) resume(k Token, id uuid.UUID) Grant {
	p.Helper()
	img := p.image("resume", Request{Tag: k.Tag, ID: id}, Granted, func(ctx context.Context) (Answer, error) {
		return p.Resume(ctx, k, Request{Tag: k.Tag, ID: id})
	})
	return p.Grant(img, Request{Tag: k.Tag, ID: id})
}

// gone sends a resume and a touch that find nothing.
func (p *peer) gone(k Token) {
	p.Helper()
	g := Grant{Tag: k.Tag, ID: eve}
	p.once("nothing", func() {
		got, err := p.Resume(p.Context(), k, Request{Tag: k.Tag, ID: eve, Document: true})
		if got.Outcome != Lost || got.Image != nil || err != nil {
			p.Errorf("resume: %v, %v", got.Outcome, err)
		}
	})
	p.plain("touch", g, Lost, func(ctx context.Context) (Answer, error) { return p.Touch(ctx, k) })
}

// touch sends a touch that finds the entry.
func (p *peer) touch(k Token) {
	p.Helper()
	p.untouched("touch", func() {
		p.plain("touch", Grant{Tag: k.Tag}, Renewed, func(ctx context.Context) (Answer, error) { return p.Touch(ctx, k) })
	})
}

func TestDetach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
	w.at(4 * second)
	p.detach(g, Detached)
	p.detach(g, Detached) // a repeat
	w.is(stored{fence: n0 + 1, tags: rows{"read": {
		{id: ann, seq: n0, fence: n0, expires: 4*second + held, n: 1, key: key, detached: true},
		{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held},
	}}})
	w.Delete()
	p.plain("detach", g, Lost, func(ctx context.Context) (Answer, error) { return p.Detach(ctx, g, key) })
}

// A waiting entry has no handle to detach.
func TestDetachOfAWaitingEntryIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	p.acquire(ann, "read", Granted)
	p.detach(p.acquire(bob, "write", Waiting), Lost)
}

func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
	k := p.detach(g, Detached)
	w.at(20 * second) // both have expired, and nobody has pruned them
	first := p.resume(k, cid)
	if first.Key != key || first.Fence != n0+20_000 || first.Seq != n0 {
		t.Errorf("the grant is %+v", first)
	}
	others := row{id: bob, seq: n0 + 1, fence: n0 + 1, expires: held}
	mine := row{id: cid, seq: n0, fence: n0 + 20_000, expires: 20*second + held, key: key}
	w.is(stored{fence: n0 + 20_000, tags: rows{"read": {mine, others}}})
	w.at(21 * second)
	p.resume(k, cid) // a repeat
	mine.expires = 21*second + held
	w.is(stored{fence: n0 + 20_000, tags: rows{"read": {mine, others}}})
	w.at(22 * second)
	p.resume(k, dan) // the earlier handle may count as valid until the entry's expiry
	mine.id, mine.fence, mine.expires, mine.until = dan, n0+22_000, 22*second+held, mine.expires
	w.is(stored{fence: n0 + 22_000, tags: rows{"read": {mine, others}}})
	w.at(23 * second)
	p.touch(k)
	mine.expires = 23*second + held
	w.is(stored{fence: n0 + 22_000, tags: rows{"read": {mine, others}}})
}

// A handle of a token detaches with the token's key. What was to be kept until
// then is kept.
func TestDetachAndResumeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	k := p.detach(p.acquire(ann, "write", Granted), Detached)
	for i := range int64(3) {
		p.detach(p.resume(k, named(string(rune('a'+i)))), Detached)
	}
	mine := row{id: named("c"), seq: n0, fence: n0 + 3, expires: held, key: key, detached: true}
	w.is(stored{fence: n0 + 3, tags: rows{"write": {mine}}})
	p.resume(k, dan)
	last := p.resume(k, eve)
	p.detach(last, Detached)
	p.resume(k, bob)
	w.is(stored{fence: n0 + 6, tags: rows{"write": {{id: bob, seq: n0, fence: n0 + 6, expires: held, key: key, until: held}}}})
}

func TestResumeShowsTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	k := p.detach(p.acquire(ann, "read", Granted), Detached)
	got, err := p.Resume(t.Context(), k, Request{Tag: k.Tag, ID: bob, Document: true})
	if err != nil {
		t.Fatal(err)
	}
	var back bson.Raw
	if err := p.Decode(got.Image, &back); err != nil || !bytes.Equal(back, p.users()) {
		t.Errorf("%v, %v; in the document: %v", back, err, p.users())
	}
}

// A token finds its entry by the key, under its tag, in its document.
func TestTokenOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.gone(token(g))
	k := p.detach(g, Detached)
	before := w.Stored()
	other := k
	other.Tag = "write"
	p.gone(other)
	other = k
	other.Key = ann
	p.gone(other)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	p.release(p.resume(k, bob), Released)
	p.gone(k)
	w.Delete()
	p.gone(k)
}

// A lock without fences is resumed, and the fencing token follows the clock. A
// lock that is not ours stays as it is.
func TestResumeInADamagedLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage  bson.M
		foreign bool
	}{
		"no fence":     {bson.M{"$unset": bson.M{"lock.fence": 1}}, false},
		"a null fence": {bson.M{"$set": bson.M{"lock.fence": nil}}, false},
		"a text fence": {bson.M{"$set": bson.M{"lock.fence": "x"}}, true},
		"the last one": {bson.M{"$set": bson.M{"lock.fence": int64(fenceLimit)}}, true},
		"another tag":  {bson.M{"$set": bson.M{"lock.tags.x": "y"}}, true},
		"odd values": {bson.M{"$set": bson.M{
			"lock.tags.write.0.n": "many", "lock.tags.write.0.detached": "yes", "lock.tags.write.0.seq": bson.A{},
			"lock.tags.write.0.since": nil,
		}}, false},
		"an odd expiry": {bson.M{"$set": bson.M{"lock.tags.write.0.expires": "soon", "lock.tags.write.0.until": bson.M{}}}, false},
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Exclusive())
			k := p.detach(p.acquire(ann, "write", Granted), Detached)
			w.Change(c.damage)
			before := w.Stored()
			got, err := p.Resume(w.Context(), k, Request{Tag: k.Tag, ID: bob})
			if c.foreign {
				if f := AsFailure(err); f.Cause != CauseForeign || !bytes.Equal(before, w.Stored()) {
					w.Errorf("%v, %v", f.Cause, err)
				}
				return
			}
			if err != nil || got.Outcome != Granted {
				w.Fatalf("%v, %v", got.Outcome, err)
			}
			p.touch(k)
			p.release(p.Grant(got.Image, Request{Tag: "write", ID: bob}), Released)
		})
	}
}
