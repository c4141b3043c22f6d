package locktest_test

import (
	"context"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	ctx  = context.Background()
	rw   = relations.WritePreferring()
	inc  = bson.M{"$inc": bson.M{"total": 1}}
	incs = bson.A{bson.M{"$set": bson.M{"total": bson.M{"$add": bson.A{"$total", 1}}}}}
)

// conformance is one case. What it shows is in a step's text.
type conformance struct {
	name, shows string
	run         func(*play)
}

// cases are every command with every outcome, and what the documents promise.
var cases = slices.Concat(acquires, holders)

var acquires = []conformance{
	{"acquire: granted", "try write: done", func(p *play) { p.try(p.locker("a", rw), "write") }},
	{"acquire: conflict", "write of a, waiting false", func(p *play) {
		p.try(p.locker("a", rw), "write")
		p.try(p.locker("b", rw), "write")
		p.try(p.locker("b", rw), "read")
	}},
	{"acquire: shared by readers", "try read: done", func(p *play) {
		for _, owner := range []string{"a", "b", "c"} {
			p.try(p.locker(owner, rw), "read")
		}
	}},
	{"acquire: not found", "doclock: no such document", func(p *play) {
		_, err := p.locker("a", rw).TryAcquire(ctx, bson.M{"_id": 2}, "write")
		p.step("none", err)
	}},
	{"acquire: foreign lock", "foreign", func(p *play) {
		for _, field := range []any{"text", 7, bson.D{{Key: "fence", Value: "x"}}, bson.D{{Key: "tags", Value: 1}}, bson.D{{Key: "tags", Value: bson.M{"write": bson.A{1}}}}} {
			_, err := p.coll.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"lock": field}})
			check(p.T, err)
			p.try(p.locker("a", rw), "write")
		}
	}},
	{"acquire: a lock that is null, or partly", "done", func(p *play) {
		for _, field := range []any{nil, bson.D{}, bson.D{{Key: "fence", Value: 7.0}}, bson.D{{Key: "tags", Value: nil}, {Key: "more", Value: 1}}} {
			_, err := p.coll.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"lock": field}})
			check(p.T, err)
			p.try(p.locker("a", rw), "write")
		}
	}},
	{"acquire: unknown tag", "of b", func(p *play) {
		p.try(p.locker("b", relations.Rules{"other": {}}), "other")
		p.try(p.locker("a", rw), "write")
	}},
	{"acquire: a semaphore", "conflict", func(p *play) {
		for _, owner := range []string{"a", "b", "c"} {
			p.try(p.locker(owner, relations.Semaphore(2)), "slot")
		}
	}},
	{"acquire: an expired entry is pruned", "done", func(p *play) {
		p.try(p.locker("a", rw), "write")
		p.pass(10500*time.Millisecond - 1*time.Millisecond)
		p.try(p.locker("b", rw), "write")
		p.pass(time.Millisecond)
		p.try(p.locker("b", rw), "write")
	}},
	{"acquire: by a filter that several match", "done", func(p *play) {
		p.insert(bson.D{{Key: "_id", Value: 0}, {Key: "name", Value: "flowers"}, {Key: "total", Value: 9}})
		_, err := p.locker("a", rw).TryAcquire(ctx, bson.M{"name": "flowers", "total": bson.M{"$gte": 1}}, "write", doclock.Sort(bson.D{{Key: "total", Value: -1}}))
		p.step("the greatest", err)
	}},
	{"acquire: by a filter that matches none", "no such document", func(p *play) {
		_, err := p.locker("a", rw).TryAcquire(ctx, bson.M{"_id": 1, "total": bson.M{"$gt": 5}}, "write")
		p.step("none", err)
	}},
	{"acquire: Into", "Into: done", func(p *play) {
		var got bson.D
		_, err := p.locker("a", rw).TryAcquire(ctx, bson.M{"_id": 1}, "write", doclock.Into(&got))
		p.step("Into", err, sorted(got))
	}},
	{"acquire: Upsert", "done", func(p *play) {
		_, err := p.locker("a", rw, doclock.Upsert()).TryAcquire(ctx, bson.M{"_id": "new", "kind": 2}, "write")
		p.step("upsert", err)
		_, err = p.locker("b", rw, doclock.Upsert()).TryAcquire(ctx, bson.M{"_id": "new"}, "write")
		p.step("once more", err)
	}},
	{"acquire: LeaseTTL, OwnedBy", "somebody", func(p *play) {
		p.try(p.locker("a", rw), "write", doclock.LeaseTTL(time.Minute), doclock.OwnedBy("somebody"))
		p.try(p.locker("b", rw), "write")
	}},
	{"acquire: HoldAtLeast, and a remainder", "conflict", func(p *play) {
		lease := p.try(p.locker("a", rw), "write", doclock.HoldAtLeast(time.Minute))
		p.step("release", lease.Release(ctx))
		p.try(p.locker("b", rw), "write")
		p.pass(time.Minute + 500*time.Millisecond)
		p.try(p.locker("b", rw), "write")
	}},
	{"acquire: SkipLocked", "none that matches is free", func(p *play) {
		p.insert(bson.D{{Key: "_id", Value: 2}, {Key: "name", Value: "flowers"}})
		for _, owner := range []string{"a", "b", "c"} {
			_, err := p.locker(owner, rw).TryAcquire(ctx, bson.M{"name": "flowers"}, "write", doclock.SkipLocked(), doclock.Sort(bson.D{{Key: "_id", Value: 1}}))
			text := ""
			if err != nil {
				text = err.Error()
			}
			p.step("any", err, text)
		}
	}},
}
