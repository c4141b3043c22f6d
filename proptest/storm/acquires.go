package storm

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// turn is one thing that a program does.
func (r runner) turn() {
	p := r.programs[r.IntN(2)]
	switch k := r.IntN(40); {
	case k < 8:
		r.try(p)
	case k < 19:
		r.acquire(p)
	case k < 24:
		r.do(p)
	case k < 28:
		r.several(p)
	case k < 34:
		r.enqueue(p)
	case k < 37:
		r.resume(p)
	case k < 38:
		r.touch(p)
	default:
		r.badInput(p)
	}
}

// plan is what an acquire asks for.
type plan struct {
	acquire
	filter any
	ttl    time.Duration
	opts   []doclock.AcquireOption
}

// plan draws one. Claims and shared entries are for the calls that take them.
func (r runner) plan(p *program, claims bool) plan {
	name := documents[r.IntN(len(documents))]
	pl := plan{acquire: acquire{document: name, tag: r.tags[r.IntN(len(r.tags))]}, filter: bson.M{"_id": name}, ttl: p.ttl}
	add := func(o doclock.AcquireOption) { pl.opts = append(pl.opts, o) }
	if r.one(30) {
		pl.document, pl.filter = "none", bson.M{"_id": "none"}
		if p.upsert {
			pl.document, pl.filter = "new", bson.M{"_id": "new"}
		}
	}
	switch {
	case claims && !p.upsert && r.one(6):
		pl.document, pl.filter, pl.skip = "", bson.M{"state": "open"}, true
		add(doclock.SkipLocked())
	case claims && !p.upsert && r.one(8):
		pl.document, pl.filter = "", bson.M{"state": "open"}
	}
	if r.one(5) {
		pl.ttl = time.Second + r.upTo(5*time.Second).Truncate(time.Millisecond)
		add(doclock.LeaseTTL(pl.ttl))
	}
	if r.one(5) {
		pl.owner = "somebody"
		add(doclock.OwnedBy(pl.owner))
	}
	if r.one(8) && pl.tag != p.shared {
		add(doclock.HoldAtLeast(r.upTo(2 * time.Second)))
	}
	if r.one(4) {
		add(doclock.Into(r.document(16)))
	}
	return pl
}

// document is what an acquire decodes. Some can't be decoded.
type document struct {
	spoiled int
	refuse  func() // has the release that follows be refused, or nil
}

// document draws one of n, of which three can't be decoded.
func (r runner) document(n int) *document {
	d := &document{spoiled: r.IntN(n)}
	if !r.calm && !r.peaceful() && r.one(2) {
		d.refuse = func() {
			r.mem.Fail(2, mongo.CommandError{Code: 13, Message: forbidden})
			r.fire(FaultRefused)
		}
	}
	return d
}

var errSpoiled = errors.New("the storm's own decoding has failed")

// UnmarshalBSON implements bson.Unmarshaler.
func (d *document) UnmarshalBSON([]byte) error {
	if d.spoiled < 3 && d.refuse != nil {
		d.refuse()
	}
	switch d.spoiled {
	case 0, 1:
		return errSpoiled
	case 2:
		panic(thrown)
	default:
		return nil
	}
}

// patience is a caller's context.
func (r runner) patience() (context.Context, context.CancelFunc) {
	switch r.IntN(6) {
	case 0:
		return context.WithTimeout(context.Background(), r.upTo(300*time.Millisecond))
	case 1, 2:
		return context.WithTimeout(context.Background(), r.upTo(5*time.Second))
	default:
		return context.WithTimeout(context.Background(), 25*time.Second)
	}
}

// shares says that the lease may be one of several of an entry.
func (p *program) shares(tag string) bool { return p.shared != "" && tag == p.shared }

func (r runner) try(p *program) {
	pl := r.plan(p, true)
	ctx, cancel := r.patience()
	defer cancel()
	var h *holding
	r.call(ctx, p, "TryAcquire", nil, func(ctx context.Context, c *call) error {
		a := r.begin(c, &pl.acquire)
		lease, err := p.locker.TryAcquire(ctx, pl.filter, pl.tag, pl.opts...)
		if err == nil {
			h = r.got(c, a, lease, pl.ttl, p.shares(pl.tag))
		}
		return err
	})
	r.use(h)
}

// waiting adds MaxWait to a plan of an acquire that waits.
func (r runner) waiting(pl *plan) {
	pl.waits = true
	if r.one(4) {
		most := r.upTo(3 * time.Second)
		if r.one(3) {
			most = 0
		}
		pl.maxWait = &most
		pl.opts = append(pl.opts, doclock.MaxWait(most))
	}
}

func (r runner) acquire(p *program) {
	pl := r.plan(p, true)
	r.waiting(&pl)
	ctx, cancel := r.patience()
	defer cancel()
	var h *holding
	r.call(ctx, p, "Acquire", nil, func(ctx context.Context, c *call) error {
		a := r.begin(c, &pl.acquire)
		lease, err := p.locker.Acquire(ctx, pl.filter, pl.tag, pl.opts...)
		if err == nil {
			h = r.got(c, a, lease, pl.ttl, p.shares(pl.tag))
		}
		return err
	})
	r.use(h)
}

var errWork = errors.New("the storm's own work has failed")

func (r runner) do(p *program) {
	pl := r.plan(p, true)
	r.waiting(&pl)
	ctx, cancel := r.patience()
	defer cancel()
	var h *holding
	r.call(ctx, p, "Do", nil, func(ctx context.Context, c *call) error {
		a := r.begin(c, &pl.acquire)
		return p.locker.Do(ctx, pl.filter, pl.tag, func(ctx context.Context, lease *doclock.Lease) error {
			h = r.got(c, a, lease, pl.ttl, p.shares(pl.tag))
			return r.inside(ctx, h)
		}, pl.opts...)
	})
	r.settle(h)
}

// inside is what the function of a Do does.
func (r runner) inside(ctx context.Context, h *holding) error {
	r.work(ctx, h)
	switch r.IntN(12) {
	case 0:
		panic(thrown)
	case 1:
		return errWork
	case 2:
		r.end(ctx, h)
	}
	return nil
}

func (r runner) several(p *program) {
	n := 2 + r.IntN(2)
	plans := make([]*plan, n)
	wants := make([]multilock.Want, n)
	names := slices.Clone(documents)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i := range n {
		pl := r.plan(p, false)
		r.waiting(&pl)
		pl.document = names[i]
		pl.filter = bson.M{"_id": pl.document}
		plans[i], wants[i] = &pl, p.locker.Want(pl.filter, pl.tag, pl.opts...)
	}
	ctx, cancel := r.patience()
	defer cancel()
	acquires := make([]*acquire, n)
	held := make([]*holding, n)
	take := func(c *call, leases multilock.Leases) {
		for i, lease := range leases {
			held[i] = r.got(c, acquires[i], lease, plans[i].ttl, p.shares(plans[i].tag))
		}
	}
	name := "AcquireAll"
	if r.one(2) {
		name = "DoAll"
	}
	r.call(ctx, p, name, nil, func(ctx context.Context, c *call) error {
		for _, name := range slices.Sorted(slices.Values(names[:n])) { // their turns
			i := slices.Index(names, name)
			acquires[i] = r.begin(c, &plans[i].acquire)
		}
		if name == "AcquireAll" {
			leases, err := multilock.AcquireAll(ctx, wants...)
			take(c, leases)
			return err
		}
		return multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error {
			take(c, leases)
			for _, h := range held {
				r.work(ctx, h)
			}
			return nil
		}, wants...)
	})
	for _, h := range held {
		switch {
		case h == nil:
		case name == "AcquireAll":
			r.use(h)
		default:
			r.settle(h)
		}
	}
}

// badInput makes calls that are refused before they begin.
func (r runner) badInput(p *program) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	r.call(context.Background(), p, "Acquire", nil, func(ctx context.Context, c *call) error {
		r.begin(c, &acquire{refused: true})
		_, err := p.locker.Acquire(ctx, bson.M{"_id": "a"}, "no such tag")
		return err
	})
	r.call(over, p, "Enqueue", nil, func(ctx context.Context, c *call) error {
		r.begin(c, &acquire{refused: true})
		_, err := p.locker.Enqueue(ctx, bson.M{"_id": "a"}, r.tags[0])
		return err
	})
	r.call(context.Background(), p, "Resume", nil, func(ctx context.Context, c *call) error {
		r.begin(c, &acquire{refused: true})
		_, err := p.locker.Resume(ctx, "no token")
		return err
	})
}
