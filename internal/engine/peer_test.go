package engine

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// peer is an engine in a world. Each of its methods sends one command and
// checks its outcome. It also checks what must hold in every test: one command
// was sent, the user's fields stayed the same, and the image equals the stored
// document.
type peer struct {
	*world
	*Engine
}

// peer makes an engine with the given rules and the world's clock.
func (w *world) peer(rules relations.Rules, changes ...func(*Config)) *peer {
	w.Helper()
	cfg := Config{
		Terms:   Terms{TTL: ttl, Owner: "test"},
		WaitTTL: waitTTL, Tolerance: extra, Field: DefaultField,
		Now: w.clock.Now,
	}
	for _, change := range changes {
		change(&cfg)
	}
	e, err := New(w.lab, rules, cfg)
	if err != nil {
		w.Fatal(err)
	}
	return &peer{w, e}
}

// acquire sends an acquire and checks its outcome.
func (p *peer) acquire(id uuid.UUID, tag string, want Outcome) Grant {
	p.Helper()
	return p.granted(Request{Tag: tag, ID: id}, want)
}

// try sends an acquire that doesn't wait and checks its outcome.
func (p *peer) try(id uuid.UUID, tag string, want Outcome) Grant {
	p.Helper()
	return p.granted(Request{Tag: tag, ID: id, Try: true}, want)
}

// granted sends an acquire, checks its outcome and returns the grant.
func (p *peer) granted(r Request, want Outcome) Grant {
	p.Helper()
	return p.Grant(p.arrive(r, want), r)
}

// arrive sends an acquire, checks its outcome and returns its image.
func (p *peer) arrive(r Request, want Outcome) *Image {
	p.Helper()
	return p.image("acquire", r, want, func(ctx context.Context) (Answer, error) {
		return p.Engine.Acquire(ctx, p.filter(), r)
	})
}

// confirm sends a confirm for a waiting entry and checks its outcome.
func (p *peer) confirm(g Grant, want Outcome) Grant {
	p.Helper()
	return p.Grant(p.ask(g, Request{Tag: g.Tag, ID: g.ID}, want), Request{Tag: g.Tag, ID: g.ID})
}

// ask sends a confirm, checks its outcome and returns its image.
func (p *peer) ask(g Grant, r Request, want Outcome) *Image {
	p.Helper()
	return p.image("confirm", r, want, func(ctx context.Context) (Answer, error) {
		return p.Confirm(ctx, g.Pin, r)
	})
}

func (p *peer) image(name string, r Request, want Outcome, send func(context.Context) (Answer, error)) *Image {
	p.Helper()
	var img *Image
	p.untouched(name, func() {
		p.once(name, func() {
			got, err := send(p.Context())
			if err != nil || got.Outcome != want {
				p.Fatalf("%s(%s, %s): %v, %v; want %v", name, r.Tag, r.ID[:3], got.Outcome, err, want)
			}
			img = got.Image
		})
	})
	if img == nil {
		p.Fatalf("%s: %v without an image", name, want)
	}
	p.asStored(name, img)
	if !img.Now.Equal(p.clock.Now()) {
		p.Errorf("%s: the image's time is %v, not %v", name, img.Now, p.clock.Now())
	}
	return img
}

// asStored checks that the image shows the stored document.
func (p *peer) asStored(name string, img *Image) {
	p.Helper()
	doc := p.Stored()
	if id := doc.Lookup("_id"); !img.ID.Equal(id) {
		p.Errorf("%s: the image is of document %v, not %v", name, img.ID, id)
	}
	field, _ := doc.LookupErr(p.Field)
	stored, err := parseLock(field)
	if err != nil {
		p.Fatal(err)
	}
	if diff := cmp.Diff(stored, img.Lock, cmpopts.EquateEmpty()); diff != "" {
		p.Errorf("%s: the image is not what is stored (-stored +image):\n%s", name, diff)
	}
}

// untouched checks that a command leaves the user's fields the same, byte for
// byte.
func (p *peer) untouched(name string, command func()) {
	p.Helper()
	before := p.users()
	command()
	if after := p.users(); !bytes.Equal(before, after) {
		p.Errorf("%s: the user's fields were %v, and became %v", name, before, after)
	}
}

// users are the document's fields without the lock.
func (p *peer) users() bson.Raw {
	p.Helper()
	fields, err := without(p.Stored(), p.Field)
	if err != nil {
		p.Fatal(err)
	}
	return fields
}

// renew sends a renewal and checks its outcome.
func (p *peer) renew(g Grant, want Outcome) {
	p.Helper()
	p.untouched("renew", func() {
		p.plain("renew", g, want, func(ctx context.Context) (Answer, error) { return p.Renew(ctx, g) })
	})
}

// release sends a release and checks its outcome.
func (p *peer) release(g Grant, want Outcome) {
	p.Helper()
	p.untouched("release", func() {
		p.plain("release", g, want, func(ctx context.Context) (Answer, error) { return p.Release(ctx, g) })
	})
}

// write sends a guarded write that keeps the lock and checks its outcome.
func (p *peer) write(g Grant, update any, k int64, want Outcome) {
	p.Helper()
	u := p.parsed(update)
	p.plain("write", g, want, func(ctx context.Context) (Answer, error) { return p.Write(ctx, g, u, k) })
}

// finish sends a guarded write that releases the lock and checks its outcome.
func (p *peer) finish(g Grant, update any, want Outcome) {
	p.Helper()
	u := p.parsed(update)
	p.plain("finish", g, want, func(ctx context.Context) (Answer, error) { return p.WriteAndRelease(ctx, g, u) })
}

func (p *peer) plain(name string, g Grant, want Outcome, send func(context.Context) (Answer, error)) {
	p.Helper()
	p.once(name, func() {
		got, err := send(p.Context())
		if err != nil || got.Outcome != want {
			p.Fatalf("%s(%s, %s): %v, %v; want %v", name, g.Tag, g.ID[:3], got.Outcome, err, want)
		}
	})
}

// proven sends a command that finds nothing, and checks that a linearizable read with
// a time limit has proven it.
func (p *peer) proven(name string, send func(context.Context) (Answer, error)) {
	p.Helper()
	p.sent.Take()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	got, err := send(ctx)
	sent := p.sent.All()
	if err != nil || got.Outcome != Lost || len(sent) != 2 {
		p.Fatalf("%s: %v, %v; %d commands", name, got.Outcome, err, len(sent))
	}
	if limit, _ := sent[1].Lookup("maxTimeMS").AsInt64OK(); !fixture.IsProof(sent[1]) || limit <= 0 {
		p.Errorf("%s: the proof is %v", name, sent[1])
	}
}

func (p *peer) parsed(update any) *Update {
	p.Helper()
	u, err := p.ParseUpdate(update)
	if err != nil {
		p.Fatal(err)
	}
	return u
}

// read reads the image and checks that it equals the stored document.
func (p *peer) read(g Grant) *Image {
	p.Helper()
	var img *Image
	p.untouched("read", func() {
		p.once("read", func() {
			var err error
			if img, err = p.Read(p.Context(), g.Pin); err != nil || img == nil {
				p.Fatalf("read: %v, %v", img, err)
			}
		})
	})
	p.asStored("read", img)
	return img
}

// forked runs body as a subtest in a world of its own.
func forked(t *testing.T, name string, body func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		body(newWorld(t, bson.E{Key: "text", Value: "hello"}))
	})
}

// handoff checks the successor's outcome and returns its grant. The lease has
// ended, whatever the outcome is.
func (p *peer) handoff(g Grant, s Successor, want Outcome) Grant {
	p.Helper()
	img := p.image("handoff", s.Request, want, func(ctx context.Context) (Answer, error) {
		return p.Handoff(ctx, g, s)
	})
	return p.Grant(img, s.Request)
}

// writeAndHandOff is handoff with an update.
func (p *peer) writeAndHandOff(g Grant, update any, s Successor, want Outcome) Grant {
	p.Helper()
	u := p.parsed(update)
	var img *Image
	p.once("writeAndHandOff", func() {
		got, err := p.WriteAndHandOff(p.Context(), g, u, s)
		if img = got.Image; err != nil || img == nil || got.Outcome != want {
			p.Fatalf("writeAndHandOff(%s, %s): %v, %v, %v; want %v", g.ID[:3], s.ID[:3], got.Outcome, got.Image, err, want)
		}
	})
	p.asStored("writeAndHandOff", img)
	return p.Grant(img, s.Request)
}

// noHandoff checks that a handoff, and one with an update, change nothing.
func (p *peer) noHandoff(g Grant, update any, s Successor) {
	p.Helper()
	before := p.Stored()
	u := p.parsed(update)
	if got, err := p.Handoff(p.Context(), g, s); got.Outcome != Lost || got.Image != nil || err != nil {
		p.Errorf("handoff: %v, %v, %v", got.Outcome, got.Image, err)
	}
	if got, err := p.WriteAndHandOff(p.Context(), g, u, s); got.Outcome != Lost || got.Image != nil || err != nil {
		p.Errorf("handoff with an update: %v, %v, %v", got.Outcome, got.Image, err)
	}
	if after := p.Stored(); !bytes.Equal(before, after) {
		p.Errorf("made %v of %v", after, before)
	}
}
