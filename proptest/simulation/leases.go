package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func (r runner) use(h *holding) {
	if h == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	kept := r.one(2)
	if kept {
		ctx = h.lease.KeepAlive(ctx)
	}
	r.work(ctx, h)
	if r.one(15) { // nobody releases it
		r.mu.Lock()
		defer r.mu.Unlock()
		h.alone = true
		r.fire(FaultCrashed)
		return
	}
	r.end(ctx, h)
	r.settle(h)
	if r.pause(time.Second); kept && ctx.Err() == nil {
		r.fault("the context of KeepAlive goes on after %s %s", h.lease.Tag(), h.id)
	}
}

// short is a context for one command: ctx, or one that ends soon.
func (r runner) short(ctx context.Context) (context.Context, context.CancelFunc) {
	switch r.IntN(6) {
	case 0:
		return context.WithTimeout(context.WithoutCancel(ctx), r.upTo(2*time.Second))
	case 1: // without a deadline that anybody could know
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		timer := time.AfterFunc(r.upTo(2*time.Second), cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
	return context.WithTimeout(ctx, 20*time.Second)
}

// kindsOf are the kinds of the commands that a method sends.
var kindsOf = map[string][]locktest.Kind{
	"Convert": {locktest.Acquires}, "Renew": {locktest.Renewals}, "Update": {locktest.Writes},
	"Release": {locktest.Releases}, "UpdateAndRelease": {locktest.Releases}, "Delete": {locktest.Releases}, "Detach": {locktest.Releases},
}

// on is a call of a lease's method. Some meet a fault that is meant for them.
func (r runner) on(ctx context.Context, h *holding, name string, f func(context.Context, *call) error) *call {
	if r.harms() && r.one(8) {
		if r.one(2) {
			r.mem.Delay(1, r.upTo(3*time.Second), kindsOf[name]...)
			r.fire(FaultDelayed)
		} else {
			r.mem.LoseReplies([]int{1, 8, 60}[r.IntN(3)], kindsOf[name]...)
			r.fire(FaultReplyLost)
		}
	}
	defer r.look(h)
	return r.call(ctx, h.program, name, h, f)
}

// plain is a method that has no result.
func plain(f func(context.Context) error) func(context.Context, *call) error {
	return func(ctx context.Context, _ *call) error { return f(ctx) }
}

func (r runner) work(ctx context.Context, h *holding) {
	r.look(h)
	for range r.IntN(4) {
		short, cancel := r.short(ctx)
		switch r.IntN(8) {
		case 0, 1:
			r.write(short, h, "Update", h.lease.Update)
		case 2:
			r.on(short, h, "Renew", plain(h.lease.Renew))
		case 3:
			if r.one(3) {
				r.lose(h)
			}
		case 4:
			r.guarded(short, h)
		default:
			r.linger(h)
		}
		cancel()
	}
}

// linger does nothing for a while, now and then as long as a long garbage collection.
func (r runner) linger(h *holding) {
	if r.one(10) {
		time.Sleep(h.ttl/2 + time.Duration(r.Int64N(int64(h.ttl+h.group.tolerance))))
		if h.lease.Remaining() <= 0 {
			r.fire(FaultPaused)
		}
	}
	r.pause(time.Second)
	r.look(h)
}

type updates func(context.Context, any, ...options.Lister[options.UpdateOneOptions]) error

// write adds one line to the document's log, and shuts or opens the document, by operators or by a pipeline.
func (r runner) write(ctx context.Context, h *holding, name string, update updates) {
	mark := fmt.Sprintf("%s%d.%d.%d", history.WriteMark, h.program.number, r.number, r.writes.Add(1))
	line := fmt.Sprintf("%d/%s", h.lease.Fence(), mark)
	shut := r.one(4)
	var adds any = bson.M{"$push": bson.M{"log": line}, "$set": bson.M{"shut": shut}}
	if r.one(2) {
		adds = bson.A{bson.M{"$set": bson.M{"shut": shut, "log": bson.M{"$concatArrays": bson.A{bson.M{"$ifNull": bson.A{"$log", bson.A{}}}, bson.A{line}}}}}}
	}
	r.on(ctx, h, name, func(ctx context.Context, c *call) error {
		r.writing(c, mark)
		return update(ctx, adds)
	})
}

// guarded adds one line to the document's log by a write of the program's own.
func (r runner) guarded(ctx context.Context, h *holding) {
	line := fmt.Sprintf("%d/own write %d.%d.%d", h.lease.Fence(), h.program.number, r.number, r.writes.Add(1))
	r.call(ctx, h.program, "UpdateOne", nil, func(ctx context.Context, _ *call) error {
		_, err := h.program.coll.UpdateOne(ctx, h.lease.Guard(), bson.M{"$push": bson.M{"log": line}})
		return err
	})
}

func (r runner) lose(h *holding) {
	if !r.harms() {
		return
	}
	r.taken(h)
	if r.mem.Lose(h.lease) == nil {
		r.fire(FaultLose)
	}
}

// end ends a lease in one of the ways.
func (r runner) end(ctx context.Context, h *holding) {
	short, cancel := r.short(ctx)
	defer cancel()
	name, _ := h.lease.DocumentID().StringValueOK()
	switch k := r.IntN(20); {
	case k < 8:
		r.on(short, h, "Release", plain(h.lease.Release))
	case k == 8 && slices.Contains(h.group.deleted, name):
		r.on(short, h, "Delete", plain(h.lease.Delete))
	case k < 13 || !h.group.terms:
		r.write(short, h, "UpdateAndRelease", h.lease.UpdateAndRelease)
	case k < 17:
		r.detach(short, h)
	default:
		r.convert(short, h)
	}
}

// token is one that somebody has left, and what it was made of.
type token struct {
	text     string
	group    *group
	document string
	tag      string
	key      string
}

// token reads the key from its text.
func (h *holding) token(text string) *token {
	t := &token{text: text, group: h.group, tag: h.lease.Tag()}
	t.document, _ = h.lease.DocumentID().StringValueOK()
	message, _ := base64.RawURLEncoding.DecodeString(text)
	key := sha256.Sum256(message[1:17])
	t.key = hex.EncodeToString(key[:16])
	return t
}

func (r runner) detach(ctx context.Context, h *holding) {
	r.on(ctx, h, "Detach", func(ctx context.Context, _ *call) error {
		text, err := h.lease.Detach(ctx)
		if text != "" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tokens = append(r.tokens, h.token(text))
		}
		return err
	})
}

func (r runner) convert(ctx context.Context, h *holding) {
	r.use(r.convertTo(ctx, h, r.tag(h.group)))
}

func (r runner) convertTo(ctx context.Context, h *holding, tag string) (next *holding) {
	r.on(ctx, h, "Convert", func(ctx context.Context, c *call) error {
		lease, err := h.lease.Convert(ctx, tag)
		if err == nil {
			next = r.got(c, nil, lease, h.ttl)
		}
		return err
	})
	return next
}

// settle asks for what became of a lease, until it is told.
func (r runner) settle(h *holding) {
	if h == nil {
		return
	}
	var c *call
	for range 100 {
		c = r.on(context.Background(), h, "Release", plain(h.lease.Release))
		if c.err == nil && !c.panicked {
			return
		}
		if slices.ContainsFunc([]error{doclock.ErrLost, doclock.ErrOutcomeUnknown, doclock.ErrReleased}, func(of error) bool { return errors.Is(c.err, of) }) {
			return
		}
		r.pause(time.Second)
	}
	r.fault("100 releases of a lease have failed, the last with %v", c.err)
}

// enqueue takes a ticket, waits with it in some ways, and cancels it or leaves it
// alone.
func (r runner) enqueue(p *program) {
	pl := r.plan(p)
	for pl.document == "" {
		pl = r.plan(p) // no claim has a ticket
	}
	ctx, cancel := r.patience()
	defer cancel()
	t, a := r.ticket(ctx, p, &pl), &pl.acquire
	if t == nil {
		return
	}
	atOnce := t.Granted() // then its caller has the lease to release
	for asks := r.IntN(4); asks > 0 || atOnce; asks-- {
		h, err := r.ask(p, a, t, pl.ttl)
		if h != nil {
			r.use(h)
			return
		}
		if !errors.Is(err, doclock.ErrConflict) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if r.one(8) {
			time.Sleep(pl.group.waitTTL + pl.group.tolerance) // past its life
		}
		r.pause(time.Second)
	}
	if r.one(5) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tickets[a.id] = true
		r.fire(FaultCrashed)
		return
	}
	if r.one(2) {
		time.Sleep(max(pl.ttl, pl.group.waitTTL) + pl.group.tolerance) // past its life, and a lease's that no ask returned
	}
	for range 2 {
		short, cancel := r.patience()
		c := r.call(short, p, "Cancel", nil, func(ctx context.Context, c *call) error {
			r.mu.Lock()
			a.cancelled, c.ticket = true, a
			r.mu.Unlock()
			return t.Cancel(ctx)
		})
		cancel()
		if c.err == nil {
			return
		}
		r.mu.Lock()
		r.tickets[a.id] = true // its entry may stay
		r.mu.Unlock()
	}
}

func (r runner) ticket(ctx context.Context, p *program, pl *plan) (t *multilock.Ticket) {
	pl.ticket = true
	r.call(ctx, p, "Enqueue", nil, func(ctx context.Context, c *call) (err error) {
		r.begin(c, &pl.acquire)
		if t, err = pl.locker.Enqueue(ctx, pl.filter, pl.tag, pl.opts...); t != nil {
			pl.id = text(t.ID())
		}
		return err
	})
	return t
}

func (r runner) ask(p *program, a *acquire, t *multilock.Ticket, ttl time.Duration) (h *holding, err error) {
	ctx, cancel := r.patience()
	defer cancel()
	name, ask := "Wait", t.Wait
	if r.one(2) {
		name, ask = "Confirm", t.Confirm
	}
	if r.harms() && r.one(3) { // the grant may come after the ask
		ctx, cancel = context.WithTimeout(ctx, r.upTo(time.Second))
		defer cancel()
		r.mem.Delay(4, r.upTo(3*time.Second), locktest.Acquires)
		r.fire(FaultDelayed)
	}
	c := r.call(ctx, p, name, nil, func(ctx context.Context, c *call) error {
		r.mu.Lock()
		c.acquires = []*acquire{a}
		r.mu.Unlock()
		lease, err := ask(ctx)
		if err == nil {
			h = r.got(c, a, lease, ttl)
		}
		return err
	})
	return h, c.err
}

// resume resumes a token that somebody has left.
func (r runner) resume(p *program) {
	token := r.token()
	if token == nil {
		return
	}
	ctx, cancel := r.patience()
	defer cancel()
	opts, ttl := r.life(p, token)
	if r.one(4) {
		opts = append(opts, doclock.Into(r.document(8)))
	}
	var h *holding
	r.call(ctx, p, "Resume", nil, func(ctx context.Context, c *call) error {
		c.token = token
		a := r.begin(c, &acquire{group: token.group})
		lease, err := p.lockers[token.group].Resume(ctx, r.shown(token), token.text, opts...)
		if err == nil {
			h = r.got(c, a, lease, ttl)
		}
		return err
	})
	r.use(h)
}

func (r runner) touch(p *program) {
	token := r.token()
	if token == nil {
		return
	}
	ctx, cancel := r.patience()
	defer cancel()
	opts, _ := r.life(p, token)
	r.call(ctx, p, "Touch", nil, func(ctx context.Context, c *call) error {
		c.token = token
		return p.lockers[token.group].Touch(ctx, r.shown(token), token.text, opts...)
	})
}

// shown is the filter that a token is shown with. Some demand a log, or none.
func (r runner) shown(t *token) any {
	if r.one(3) {
		return bson.M{"_id": t.document, "log.0": bson.M{"$exists": r.one(2)}}
	}
	return doclock.ID(t.document)
}

// life is the TTL of a resume or a touch: mostly the Locker's.
func (r runner) life(p *program, t *token) (opts []doclock.AcquireOption, ttl time.Duration) {
	ttl = p.ttl(t.group)
	if t.group.terms && r.one(4) {
		ttl *= 2
		opts = append(opts, engine.AcquireOption(func(cfg *engine.AcquireConfig) error { cfg.Terms.TTL = ttl; return nil }))
	}
	return opts, ttl
}

// token is one of the last that were made, or nil.
func (r runner) token() *token {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tokens) == 0 {
		return nil
	}
	return r.tokens[len(r.tokens)-1-r.IntN(min(3, len(r.tokens)))]
}
