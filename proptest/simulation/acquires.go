package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// turnOf is one thing that a program does.
func (r runner) turnOf(p *program) {
	r.jump(p)
	switch k := r.IntN(40); {
	case k < 8:
		r.try(p)
	case k < 19:
		r.acquire(p)
	case k < 24:
		r.do(p)
	case k < 28:
		r.several(p)
	case k < 29:
		r.batch(p)
	case k < 35:
		r.enqueue(p)
	case k < 38:
		r.resume(p)
	case k < 39:
		r.touch(p)
	default:
		r.lead(p)
	}
}

func (r runner) try(p *program) {
	pl := r.plan(p)
	ctx, cancel := r.patience()
	defer cancel()
	var refused *doclock.ConflictError
	h := r.get(ctx, p, "TryAcquire", &pl, func(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
		lease, err := pl.locker.TryAcquire(ctx, filter, tag, opts...)
		_ = errors.As(err, &refused)
		return lease, err
	})
	if refused != nil && pl.group.terms && !pl.skip && r.one(2) {
		h = r.takeOver(p, &pl, refused.Holders)
	}
	r.use(h)
}

// takeOver takes the lock over from those who were in the way, or from some of them. They may have left meanwhile, or come
// back.
func (r runner) takeOver(p *program, pl *plan, from []doclock.Holder) *holding {
	from = slices.DeleteFunc(from, func(doclock.Holder) bool { return r.one(6) })
	if r.one(3) {
		r.pause(2 * time.Second)
	}
	again := *pl // a call has an acquire of its own
	again.opts = append(slices.Clone(pl.opts), doclock.TakeOver(from...))
	if again.once && again.document != "" {
		r.exclude(&again)
	}
	ctx, cancel := r.patience()
	defer cancel()
	h := r.get(ctx, p, "TryAcquire", &again, again.locker.TryAcquire)
	if h != nil && len(from) > 0 {
		r.fire(FaultTakenOver)
		if r.harms() { // their releases may find nothing, and be repeated
			r.mem.LoseReplies(1+r.IntN(8), locktest.Releases)
		}
		if slices.Contains(pl.group.deleted, pl.document) && r.one(3) { // nor a document
			r.on(ctx, h, "Delete", plain(h.lease.Delete))
			r.settle(h)
			return nil
		}
	}
	return h
}

func (r runner) acquire(p *program) {
	pl := r.plan(p)
	r.waiting(&pl)
	ctx, cancel := r.patience()
	defer cancel()
	r.use(r.get(ctx, p, "Acquire", &pl, pl.locker.Acquire))
}

// acquires is a method of a Locker that returns a lease.
type acquires func(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error)

func (r runner) get(ctx context.Context, p *program, name string, pl *plan, get acquires) (h *holding) {
	r.call(ctx, p, name, nil, func(ctx context.Context, c *call) error {
		a := r.begin(c, &pl.acquire)
		lease, err := get(ctx, pl.filter, pl.tag, pl.opts...)
		if err == nil {
			h = r.got(c, a, lease, pl.ttl)
		}
		return err
	})
	return h
}

var errWork = errors.New("the simulation's own work has failed")

func (r runner) do(p *program) {
	pl := r.plan(p)
	r.waiting(&pl)
	ctx, cancel := r.patience()
	defer cancel()
	r.doing(ctx, p, &pl, r.inside)
}

func (r runner) doing(ctx context.Context, p *program, pl *plan, inside func(context.Context, *holding) error) {
	var h *holding
	r.call(ctx, p, "Do", nil, func(ctx context.Context, c *call) error {
		a := r.begin(c, &pl.acquire)
		return pl.locker.Do(ctx, pl.filter, pl.tag, func(ctx context.Context, lease doclock.Lease) error {
			h = r.got(c, a, lease, pl.ttl)
			return c.function(func() error { return inside(ctx, h) })
		}, pl.opts...)
	})
	r.settle(h)
}

func (r runner) inside(ctx context.Context, h *holding) error {
	r.work(ctx, h)
	switch r.IntN(12) {
	case 0:
		panic(thrown)
	case 1:
		return errWork
	case 2:
		if r.end(ctx, h); r.one(2) {
			time.Sleep(3 * h.ttl) // the function goes on without its lease
		}
	}
	return nil
}

func (r runner) several(p *program) {
	n := 2 + r.IntN(2)
	plans := make([]*plan, n)
	wants := make([]multilock.Want, n)
	for i, d := range r.some(n) {
		pl := r.planFor(p, d.group, d.name)
		r.waiting(&pl)
		plans[i], wants[i] = &pl, pl.locker.Want(pl.filter, pl.tag, pl.opts...)
	}
	ctx, cancel := r.patience()
	defer cancel()
	held := make([]*holding, n)
	take := func(c *call, leases multilock.Leases) {
		for i, lease := range leases {
			held[i] = r.got(c, &plans[i].acquire, lease, plans[i].ttl)
		}
	}
	name := "AcquireAll"
	if r.one(2) {
		name = "DoAll"
	}
	r.call(ctx, p, name, nil, func(ctx context.Context, c *call) error {
		turns := slices.Clone(plans)
		slices.SortFunc(turns, func(a, b *plan) int { return strings.Compare(a.document, b.document) })
		for _, pl := range turns {
			r.begin(c, &pl.acquire)
		}
		if name == "AcquireAll" {
			leases, err := multilock.AcquireAll(ctx, wants...)
			take(c, leases)
			return err
		}
		return multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error {
			take(c, leases)
			return c.function(func() error {
				for _, h := range held {
					r.work(ctx, h)
				}
				if h := held[r.IntN(n)]; h.group.terms && r.one(4) {
					r.convert(ctx, h)
				}
				return nil
			})
		}, wants...)
	})
	for _, h := range held {
		if name == "AcquireAll" {
			r.use(h)
		} else {
			r.settle(h)
		}
	}
}

// batch claims some of a group's documents, works on each, and releases them together: to the records it is a DoAll of
// documents that the server chooses.
func (r runner) batch(p *program) {
	claims := slices.DeleteFunc(slices.Clone(r.groups), func(g *group) bool { return !g.claims || p.upsert })
	if len(claims) == 0 {
		return
	}
	g := claims[r.IntN(len(claims))]
	pl := plan{acquire: acquire{group: g, tag: r.tag(g), skip: true}, locker: p.lockers[g], filter: bson.M{"group": g.name}, ttl: p.ttl(g)}
	r.waiting(&pl)
	ctx, cancel := r.patience()
	defer cancel()
	var held []*holding
	r.call(ctx, p, "DoAll", nil, func(ctx context.Context, c *call) error {
		first := r.begin(c, &pl.acquire)
		leases, err := pl.locker.AcquireBatch(ctx, pl.filter, pl.tag, 1+r.IntN(4), pl.opts...)
		if err != nil {
			return err
		}
		for i, lease := range leases {
			a := first
			if i > 0 {
				a = r.begin(c, &acquire{group: g, tag: pl.tag, skip: true})
			}
			a.document, _ = lease.DocumentID().StringValueOK()
			held = append(held, r.got(c, a, lease, pl.ttl))
		}
		err = c.function(func() error {
			kept := make([]context.Context, len(held))
			for i, h := range held {
				kept[i] = h.lease.KeepAlive(ctx)
			}
			for i, h := range held {
				r.work(kept[i], h)
			}
			return nil
		})
		return errors.Join(err, leases.Release(context.WithoutCancel(ctx)))
	})
	for _, h := range held {
		r.settle(h)
	}
}

type named struct {
	*group
	name string
}

// some draws some documents of which no two are the same.
func (r runner) some(n int) (some []named) {
	for len(some) < n {
		g := r.groups[r.IntN(len(r.groups))]
		d := named{g, g.documents[r.IntN(len(g.documents))]}
		if !slices.Contains(some, d) {
			some = append(some, d)
		}
	}
	return some
}

// lead campaigns, and works in each term. It leads on until some terms were lost.
func (r runner) lead(p *program) {
	ctx, cancel := r.patience()
	defer cancel()
	terms := r.IntN(3)
	r.campaign(ctx, p, func(ctx context.Context, h *holding) error {
		r.work(ctx, h)
		if terms--; terms >= 0 {
			<-ctx.Done()
		}
		return context.Cause(ctx)
	})
}

func (r runner) campaign(ctx context.Context, p *program, term func(context.Context, *holding) error) {
	g := r.groups[len(r.groups)-1]
	var held []*holding
	r.call(ctx, p, "Lead", nil, func(ctx context.Context, c *call) error {
		return p.leader.Lead(ctx, bson.M{"_id": g.documents[0]}, func(ctx context.Context, lease doclock.Lease) error {
			a := r.begin(c, &acquire{group: g, document: g.documents[0], tag: lease.Tag()})
			h := r.got(c, a, lease, p.ttl(g))
			held = append(held, h)
			return c.function(func() error { return term(ctx, h) })
		})
	})
	for _, h := range held {
		r.settle(h)
	}
}

// jump sets the wall clock of a program now and then.
func (r runner) jump(p *program) {
	if r.faulty && !r.virtual() && r.one(40) {
		p.ahead.Add(int64(time.Duration(r.IntN(4000)-2000) * time.Millisecond))
		r.fire(FaultJumpedClock)
	}
}
