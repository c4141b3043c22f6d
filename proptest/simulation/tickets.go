package simulation

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
		if r.one(8) {
			time.Sleep(pl.group.waitTTL + pl.group.tolerance) // past its life
		}
		r.pause(time.Second)
	}
	if r.one(5) {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.optional, r.tickets[a.id] = true, true
		r.fire(FaultCrashed)
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
		r.tickets[a.id] = true // its entry may stay
		r.mu.Unlock()
	}
}

// ticket is a call of Enqueue.
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
	var opts []doclock.AcquireOption
	if r.one(4) {
		opts = append(opts, doclock.Into(r.document(8)))
	}
	var h *holding
	r.call(ctx, p, "Resume", nil, func(ctx context.Context, c *call) error {
		c.token = token
		a := r.begin(c, &acquire{group: token.group})
		lease, err := p.lockers[token.group].Resume(ctx, token.text, opts...)
		if err == nil {
			h = r.got(c, a, lease, token.ttl)
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
	r.call(ctx, p, "Touch", nil, func(ctx context.Context, c *call) error {
		c.token = token
		return p.lockers[token.group].Touch(ctx, token.text)
	})
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
