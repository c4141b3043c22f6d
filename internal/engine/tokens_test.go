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
	inADamagedLock(t, map[string]damage{
		"no fence":     {bson.M{"$unset": bson.M{"lock.fence": 1}}, false, Granted},
		"a null fence": {bson.M{"$set": bson.M{"lock.fence": nil}}, false, Granted},
		"a text fence": {bson.M{"$set": bson.M{"lock.fence": "x"}}, true, Lost},
		"the last one": {bson.M{"$set": bson.M{"lock.fence": int64(fenceLimit)}}, true, Lost},
		"another tag":  {bson.M{"$set": bson.M{"lock.tags.x": "y"}}, true, Lost},
		"odd values": {bson.M{"$set": bson.M{
			"lock.tags.write.0.n": "many", "lock.tags.write.0.detached": "yes", "lock.tags.write.0.seq": bson.A{},
			"lock.tags.write.0.since": nil,
		}}, false, Granted},
		"an odd expiry": {bson.M{"$set": bson.M{"lock.tags.write.0.expires": "soon", "lock.tags.write.0.until": bson.M{}}}, false, Granted},
	}, func(p *peer, g Grant) (Answer, error) {
		got, err := p.Resume(p.Context(), token(g), Request{Tag: "write", ID: bob})
		if err == nil {
			p.touch(token(g))
			p.release(p.Grant(got.Image, Request{Tag: "write", ID: bob}), Released)
		}
		return got, err
	})
}
