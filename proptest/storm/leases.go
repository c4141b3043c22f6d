package storm

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// use is what a caller does with a lease.
func (r runner) use(h *holding) {
	if h == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if r.one(2) {
		ctx = h.lease.KeepAlive(ctx)
	}
	r.work(ctx, h)
	if r.one(15) { // nobody releases it
		r.mu.Lock()
		defer r.mu.Unlock()
		h.alone = true
		return
	}
	r.end(ctx, h)
	r.settle(h)
}

// short is a context for one command: ctx, or one that ends soon.
func (r runner) short(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.one(3) {
		return context.WithTimeout(context.WithoutCancel(ctx), r.upTo(2*time.Second))
	}
	return context.WithTimeout(ctx, 20*time.Second)
}

// on is a call of a lease's method. Some meet a fault that is meant for them.
func (r runner) on(ctx context.Context, h *holding, name string, f func(context.Context) error) *call {
	if !r.calm && !r.peaceful() && r.one(8) {
		if r.one(2) {
			r.mem.Delay(1, r.upTo(3*time.Second))
			r.fire(FaultDelayed)
		} else {
			r.mem.LoseReplies([]int{1, 8, 60}[r.IntN(3)])
			r.fire(FaultReplyLost)
		}
	}
	return r.call(ctx, h.program, name, h, func(ctx context.Context, _ *call) error { return f(ctx) })
}

// work is done under a lease.
func (r runner) work(ctx context.Context, h *holding) {
	for range r.IntN(4) {
		short, cancel := r.short(ctx)
		switch r.IntN(8) {
		case 0, 1:
			r.on(short, h, "Update", func(ctx context.Context) error {
				return h.lease.Update(ctx, bson.M{"$inc": bson.M{"writes": 1}})
			})
		case 2:
			r.on(short, h, "Renew", h.lease.Renew)
		case 3:
			if r.one(3) && !r.calm && r.mem.Lose(h.lease) == nil {
				r.fire(FaultLose)
			}
		default:
			if r.one(10) {
				time.Sleep(r.upTo(9 * time.Second))
			}
			time.Sleep(r.upTo(time.Second))
		}
		cancel()
	}
}

// end ends a lease in one of the ways.
func (r runner) end(ctx context.Context, h *holding) {
	short, cancel := r.short(ctx)
	defer cancel()
	switch k := r.IntN(20); {
	case k < 8:
		r.on(short, h, "Release", h.lease.Release)
	case k < 12:
		r.on(short, h, "UpdateAndRelease", func(ctx context.Context) error {
			return h.lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"writes": 1}})
		})
	case k < 13:
		r.on(short, h, "Delete", h.lease.Delete)
	case k < 16:
		r.detach(short, h)
	case k < 19:
		r.downgrade(short, h)
	default:
		r.on(short, h, "Release", h.lease.Release)
	}
}

func (r runner) detach(ctx context.Context, h *holding) {
	r.on(ctx, h, "Detach", func(ctx context.Context) error {
		token, err := h.lease.Detach(ctx)
		if token != "" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tokens = append(r.tokens, token)
		}
		return err
	})
}

func (r runner) downgrade(ctx context.Context, h *holding) {
	tag := r.tags[r.IntN(len(r.tags))]
	var next *holding
	r.call(ctx, h.program, "Downgrade", h, func(ctx context.Context, c *call) error {
		lease, err := h.lease.Downgrade(ctx, tag)
		if err == nil {
			next = r.got(c, nil, lease, longestTTL, false)
		}
		return err
	})
	r.use(next)
}

// settle asks for what became of a lease, until it is told.
func (r runner) settle(h *holding) {
	if h == nil {
		return
	}
	for range 100 {
		c := r.on(context.Background(), h, "Release", h.lease.Release)
		r.mu.Lock()
		h.verdict = c
		r.mu.Unlock()
		if c.err == nil || slices.ContainsFunc([]error{doclock.ErrLost, doclock.ErrOutcomeUnknown, doclock.ErrReleased}, func(of error) bool { return errors.Is(c.err, of) }) {
			return
		}
		time.Sleep(r.upTo(time.Second))
	}
	r.fault("100 releases of a lease have failed, the last with %v", h.verdict.err)
}
