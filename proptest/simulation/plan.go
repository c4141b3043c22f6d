package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

type plan struct {
	acquire
	locker *multilock.Locker
	filter bson.M
	ttl    time.Duration
	opts   []doclock.AcquireOption
	once   bool // its own entry ends that its filter matches
}

// Documents that a plan may name besides those of its group.
const (
	missing = "none"
	fresh   = "new"  // made by an Upsert
	full    = "full" // no entry fits into it
)

// foreign are lock fields of somebody else. Claims sort their documents in front of all others, and pass over them.
var foreign = []any{"mine", bson.M{"v": 3}, bson.M{"fence": "7"}, bson.M{"tags": bson.M{"write": 1}}}

// group draws one. The first is often asked for, and the last, the leaders', seldom.
func (r runner) group() *group {
	g := r.groups[r.IntN(len(r.groups))]
	if r.one(3) || g == r.groups[len(r.groups)-1] && !r.one(4) {
		return r.groups[0]
	}
	return g
}

func (r runner) tag(g *group) string {
	all := g.rules.Tags()
	return all[r.IntN(len(all))]
}

// plan draws one of any document.
func (r runner) plan(p *program) plan {
	g := r.group()
	name := g.documents[r.IntN(len(g.documents))]
	switch {
	case !r.one(30):
	case p.upsert:
		name = fresh
	case r.exact() && r.one(3):
		name = full
	default:
		g, name = r.groups[0], missing
	}
	pl := r.planFor(p, g, name)
	switch {
	case p.upsert || !g.claims:
	case g.jobs || r.one(6):
		pl.document, pl.filter, pl.skip = "", bson.M{"group": g.name}, true
		pl.add(doclock.SkipLocked())
		if r.one(2) {
			pl.add(doclock.Sort(bson.D{{Key: "_id", Value: 1 - 2*r.IntN(2)}}))
		}
	case r.one(8):
		pl.document, pl.filter = "", bson.M{"group": g.name}
	case r.one(4): // a filter that doesn't pin the document
		pl.document, pl.filter = "", bson.M{"_id": bson.M{"$in": bson.A{name}}}
	}
	if g.terms && !pl.once && r.one(4) { // Porcupine knows no conditions
		r.open(&pl)
	}
	return pl
}

// open has it exclude documents that are shut, and checks that of the one that is granted.
func (r runner) open(pl *plan) {
	pl.open = true
	pl.filter["shut"] = bson.M{"$ne": true}
	into := r.document(16)
	into.judge = func(d bson.Raw) {
		if shut, _ := d.Lookup("shut").BooleanOK(); shut {
			r.fault("a document that is shut was granted: %s", d)
		}
	}
	pl.add(doclock.Into(into))
}

// planFor draws one of this document.
func (r runner) planFor(p *program, g *group, name string) plan {
	pl := plan{acquire: acquire{group: g, document: name, tag: r.tag(g)}, locker: p.lockers[g], filter: bson.M{"_id": name}, ttl: p.ttl(g)}
	if r.one(8) && name != fresh {
		pl.filter = bson.M{"_id": name, "group": g.name} // it pins the document, and demands more
	}
	if g.terms {
		r.terms(p, &pl)
	}
	// On a server late duplicates bring back entries of ids that were given up, which such a filter excludes, too.
	if g.terms && r.pace == 1 && r.one(3) && name != fresh {
		r.exclude(&pl)
	}
	if r.one(4) {
		pl.add(doclock.Into(r.document(16)))
	}
	return pl
}

// exclude gives it an owner of its own, and a filter that excludes this owner. An entry of an earlier acquire may come late.
func (r runner) exclude(pl *plan) {
	pl.once, pl.owner = true, fmt.Sprint("filter ", r.writes.Add(1), " of ", r.number)
	pl.add(doclock.Owner(pl.owner))
	pl.filter = bson.M{"_id": pl.document, "$and": bson.A{bson.M{"lock.tags." + pl.tag + ".owner": bson.M{"$ne": pl.owner}}}}
}

// terms draws those of the acquire itself.
func (r runner) terms(p *program, pl *plan) {
	if r.one(5) {
		pl.ttl = time.Second/r.pace + r.upTo(5*time.Second).Truncate(time.Millisecond)
		pl.add(engine.AcquireOption(func(cfg *engine.AcquireConfig) error { cfg.Terms.TTL = pl.ttl; return nil }))
	}
	if r.one(5) {
		pl.owner = "somebody"
		pl.add(doclock.Owner(pl.owner))
	}
	switch {
	case p.shares(pl.tag):
	case r.one(8):
		pl.least = r.upTo(2 * time.Second).Truncate(time.Millisecond)
		pl.add(doclock.HoldAtLeast(pl.least))
	case r.one(8):
		pl.most = max(time.Millisecond, (pl.ttl/2 + r.upTo(6*time.Second)).Truncate(time.Millisecond))
		pl.ttl = min(pl.ttl, pl.most)
		pl.add(engine.AcquireOption(func(cfg *engine.AcquireConfig) error { cfg.Terms.Most = pl.most; return nil }))
	}
}

func (pl *plan) add(o doclock.AcquireOption) { pl.opts = append(pl.opts, o) }

// waiting draws MaxWait for an acquire that waits.
func (r runner) waiting(pl *plan) {
	if r.one(4) {
		most := r.upTo(3 * time.Second)
		if r.one(3) {
			most = 0
		}
		pl.add(doclock.MaxWait(most))
	}
}

// document is what an acquire decodes. Some can't be decoded.
type document struct {
	spoiled int
	refuse  func() // has the release that follows be refused, or nil
	judge   func(bson.Raw)
}

// document draws one of n, of which three can't be decoded.
func (r runner) document(n int) *document {
	d := &document{spoiled: r.IntN(n)}
	if r.harms() && r.one(2) {
		d.refuse = func() {
			r.mem.Fail(2, mongo.CommandError{Code: 13, Message: forbidden})
			r.fire(FaultRefused)
		}
	}
	return d
}

var errSpoiled = errors.New("the simulation's own decoding has failed")

func (d *document) UnmarshalBSON(doc []byte) error {
	if d.judge != nil {
		d.judge(doc)
	}
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

// ofAnother are errors of another goroutine's call, with which an errgroup ends the
// context of them all.
var ofAnother = []error{
	&doclock.ConflictError{}, doclock.ErrNotFound, doclock.ErrNotAcquired, doclock.ErrLost, doclock.ErrOutcomeUnknown,
	doclock.ErrReleased, doclock.ErrClosed, doclock.ErrInvalidArgument, doclock.ErrForeignLock,
}

func (r runner) patience() (context.Context, context.CancelFunc) {
	ctx := context.Background()
	switch r.IntN(7) {
	case 0:
		return context.WithTimeout(ctx, r.upTo(300*time.Millisecond))
	case 1, 2:
		return context.WithTimeout(ctx, r.upTo(5*time.Second))
	case 3:
		return context.WithTimeoutCause(ctx, r.upTo(5*time.Second), ofAnother[r.IntN(len(ofAnother))])
	default:
		return context.WithTimeout(ctx, 25*time.Second/r.pace)
	}
}
