package storm

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
)

// enqueue takes a ticket, waits with it in some ways, and cancels it or leaves it
// alone.
func (r runner) enqueue(p *program) {
	pl := r.plan(p, false)
	pl.ticket = true
	ctx, cancel := r.patience()
	defer cancel()
	var t *multilock.Ticket
	r.call(ctx, p, "Enqueue", nil, func(ctx context.Context, c *call) (err error) {
		r.begin(c, &pl.acquire)
		t, err = p.locker.Enqueue(ctx, pl.filter, pl.tag, pl.opts...)
		return err
	})
	if t == nil {
		return
	}
	a := &pl.acquire
	a.waiting = !t.Granted()
	for range 1 + r.IntN(4) {
		h, err := r.ask(p, a, t, pl.ttl)
		if h != nil {
			r.use(h)
			return
		}
		if !errors.Is(err, doclock.ErrConflict) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		time.Sleep(r.upTo(time.Second))
	}
	if r.one(5) {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.optional, r.tickets[text(t.ID())] = true, true
		return
	}
	for range 2 {
		short, cancel := r.patience()
		c := r.call(short, p, "Cancel", nil, func(ctx context.Context, c *call) error {
			r.mu.Lock()
			a.cancel, c.ticket = c, a
			r.mu.Unlock()
			return t.Cancel(ctx)
		})
		cancel()
		if c.err == nil {
			return
		}
		r.mu.Lock()
		r.tickets[text(t.ID())] = true // its entry may stay
		r.mu.Unlock()
	}
}

// ask is a Confirm or a Wait.
func (r runner) ask(p *program, a *acquire, t *multilock.Ticket, ttl time.Duration) (h *holding, err error) {
	ctx, cancel := r.patience()
	defer cancel()
	name, ask := "Wait", t.Wait
	if r.one(2) {
		name, ask = "Confirm", t.Confirm
	}
	c := r.call(ctx, p, name, nil, func(ctx context.Context, c *call) error {
		r.mu.Lock()
		c.acquires, a.calls = []*acquire{a}, append(a.calls, c)
		r.mu.Unlock()
		lease, err := ask(ctx)
		if err == nil {
			h = r.got(c, a, lease, ttl, false)
		}
		return err
	})
	return h, c.err
}

// resume resumes a token that somebody has left.
func (r runner) resume(p *program) {
	token := r.token()
	if token == "" {
		return
	}
	ctx, cancel := r.patience()
	defer cancel()
	var opts []doclock.AcquireOption
	if r.one(4) {
		opts = append(opts, doclock.Into(r.document(8)))
	}
	var h *holding
	r.call(ctx, p, "Resume", nil, func(ctx context.Context, c *call) error {
		a := r.begin(c, &acquire{})
		lease, err := p.locker.Resume(ctx, token, opts...)
		if err == nil {
			h = r.got(c, a, lease, longestTTL, false)
		}
		return err
	})
	r.use(h)
}

func (r runner) touch(p *program) {
	token := r.token()
	if token == "" {
		return
	}
	ctx, cancel := r.patience()
	defer cancel()
	r.call(ctx, p, "Touch", nil, func(ctx context.Context, c *call) error { return p.locker.Touch(ctx, token) })
}

// token is one of the last that were made, or "".
func (r runner) token() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tokens) == 0 {
		return ""
	}
	return r.tokens[len(r.tokens)-1-r.IntN(min(3, len(r.tokens)))]
}
