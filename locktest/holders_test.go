package locktest_test

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// holders are the cases of waiters, of leases, and of operators.
var holders = []conformance{
	{"enqueue: waiting; confirm: waiting, granted", "confirm: done", func(p *play) {
		reader := p.try(p.locker("a", rw), "read")
		ticket, err := p.locker("b", rw).Enqueue(ctx, bson.M{"_id": 1}, "write")
		p.step("enqueue", err, ticket.Granted())
		_, err = ticket.Confirm(ctx)
		p.step("confirm", err)
		p.try(p.locker("c", rw), "read")
		p.step("release", reader.Release(ctx))
		p.pass(time.Second)
		_, err = ticket.Confirm(ctx)
		p.step("confirm", err)
	}},
	{"confirm: lost", "confirm: doclock: lock lost", func(p *play) {
		p.try(p.locker("a", rw), "read")
		ticket, err := p.locker("b", rw).Enqueue(ctx, bson.M{"_id": 1}, "write")
		p.step("enqueue", err)
		p.pass(20 * time.Second)
		p.try(p.locker("c", rw), "write")
		_, err = ticket.Confirm(ctx)
		p.step("confirm", err)
	}},
	{"remove: a ticket is cancelled", "cancel: done", func(p *play) {
		p.try(p.locker("a", rw), "read")
		ticket, err := p.locker("b", rw).Enqueue(ctx, bson.M{"_id": 1}, "write")
		p.step("enqueue", err)
		p.step("cancel", ticket.Cancel(ctx))
	}},
	{"queue: first come, first served", "conflict", func(p *play) {
		fair := relations.Fair()
		p.try(p.locker("a", fair), "read")
		first, err := p.locker("b", fair).Enqueue(ctx, bson.M{"_id": 1}, "write")
		p.step("first", err)
		second, err := p.locker("c", fair).Enqueue(ctx, bson.M{"_id": 1}, "read")
		p.step("second", err)
		_, err = second.Confirm(ctx)
		p.step("the second asks", err)
		_, err = first.Confirm(ctx)
		p.step("the first asks", err)
	}},
	{"renew: renewed, lost", "renew: doclock: lock lost", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		p.pass(5 * time.Second)
		p.step("renew", lease.Renew(ctx))
		p.pass(time.Minute)
		p.step("an expired entry, present", lease.Renew(ctx))
		p.pass(time.Minute)
		p.try(p.locker("b", rw), "write")
		p.step("renew", lease.Renew(ctx))
	}},
	{"release: released, lost, twice", "release: doclock: lock lost", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		p.step("release", lease.Release(ctx))
		p.step("twice", lease.Release(ctx))
		lease = p.try(p.locker("a", rw), "write")
		p.pass(time.Minute)
		p.try(p.locker("b", rw), "write")
		p.step("release", lease.Release(ctx))
	}},
	{"write: classic, pipeline, array filters, lost", "update: doclock: lock lost", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		p.step("update", lease.Update(ctx, inc))
		p.step("update", lease.Update(ctx, incs))
		p.step("update", lease.Update(ctx, bson.M{"$push": bson.M{"items": bson.M{"$each": bson.A{1, 2, 3}}}}))
		p.step("update", lease.Update(ctx, bson.M{"$set": bson.M{"items.$[big]": 0}}, options.UpdateOne().SetArrayFilters([]any{bson.M{"big": bson.M{"$gt": 1}}})))
		p.step("refused", lease.Update(ctx, bson.M{"$inc": bson.M{"name": 1}}))
		p.step("the lock's field", lease.Update(ctx, bson.M{"$unset": bson.M{"lock.tags": 1}}))
		p.pass(time.Minute)
		p.step("expired, and present", lease.Update(ctx, inc))
		p.try(p.locker("b", rw), "write")
		p.step("update", lease.Update(ctx, inc))
	}},
	{"write-and-release: classic, pipeline, lost", "last: doclock: lock lost", func(p *play) {
		for range 5 {
			p.step("last", p.try(p.locker("a", rw), "write").UpdateAndRelease(ctx, inc))
			p.step("last", p.try(p.locker("a", rw), "write").UpdateAndRelease(ctx, incs))
		}
		p.step("last", p.try(p.locker("a", rw), "write", doclock.HoldAtLeast(time.Second)).UpdateAndRelease(ctx, inc))
		p.pass(time.Minute)
		lease := p.try(p.locker("a", rw), "write")
		p.pass(time.Minute)
		p.try(p.locker("b", rw), "write")
		p.step("last", lease.UpdateAndRelease(ctx, inc))
	}},
	{"guard: a write of one's own", "0", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		result, err := p.coll.UpdateOne(ctx, lease.Guard(), inc)
		p.step("guarded", err, result.MatchedCount)
		guard := lease.Guard()
		p.step("release", lease.Release(ctx))
		result, err = p.coll.UpdateOne(ctx, guard, inc)
		p.step("guarded", err, result.MatchedCount)
	}},
	{"delete: deleted, lost", "delete: doclock: lock lost", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		p.pass(time.Minute)
		other := p.try(p.locker("b", rw), "write")
		p.step("delete", lease.Delete(ctx))
		p.step("delete", other.Delete(ctx))
		p.try(p.locker("b", rw), "write")
	}},
	{"detach, resume, touch; and each lost", "touch: doclock: lock lost", func(p *play) {
		locks := p.locker("a", rw)
		token, err := p.try(locks, "write").Detach(ctx)
		p.step("detach", err)
		p.try(p.locker("b", rw), "write")
		p.pass(5 * time.Second)
		p.step("touch", locks.Touch(ctx, token))
		var got bson.D
		lease, err := p.locker("c", rw).Resume(ctx, token, doclock.Into(&got))
		p.step("resume", err, lease.Fence(), sorted(got))
		again, err := p.locker("d", rw).Resume(ctx, token)
		p.step("resume beside a handle", err, again.Fence())
		p.step("the earlier handle", lease.Update(ctx, inc))
		p.step("update", again.Update(ctx, inc))
		p.step("release", again.Release(ctx))
		p.try(p.locker("b", rw), "write")
		p.pass(time.Minute)
		p.try(p.locker("b", rw), "write")
		_, err = locks.Resume(ctx, token)
		p.step("resume", err)
		p.step("touch", locks.Touch(ctx, token))
	}},
	{"detach: lost", "detach: doclock: lock lost", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		p.pass(time.Minute)
		p.try(p.locker("b", rw), "write")
		_, err := lease.Detach(ctx)
		p.step("detach", err)
	}},
	{"downgrade: granted, conflict, lost", "downgrade: doclock: lock lost", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		reader, err := lease.Downgrade(ctx, "read")
		p.step("downgrade", err)
		p.try(p.locker("b", rw), "read")
		_, err = reader.Downgrade(ctx, "write")
		p.step("downgrade", err)
		p.pass(time.Minute)
		p.try(p.locker("c", rw), "write")
		_, err = reader.Downgrade(ctx, "read")
		p.step("downgrade", err)
	}},
	{"handoff: a release, to a waiter of the process", "the next: done", func(p *play) { p.handOver(rw, "write", (*doclock.Lease).Release) }},
	{"handoff: a last update, as a compare-and-set", "the next: done", func(p *play) {
		p.handOver(rw, "write", func(l *doclock.Lease, ctx context.Context) error { return l.UpdateAndRelease(ctx, inc) })
	}},
	{"handoff: a last update, as a pipeline", "the next: done", func(p *play) {
		p.handOver(rw, "write", func(l *doclock.Lease, ctx context.Context) error { return l.UpdateAndRelease(ctx, incs) })
	}},
	{"handoff: to a waiter in the document", "the next: done", func(p *play) { p.handOver(relations.Fair(), "write", (*doclock.Lease).Release) }},
	{"several: all, or none", "conflict", func(p *play) {
		p.insert(bson.D{{Key: "_id", Value: 2}})
		a, b := p.locker("a", rw), p.locker("b", rw)
		held, err := multilock.AcquireAll(ctx, a.Want(bson.M{"_id": 2}, "write"), a.Want(bson.M{"_id": 1}, "read"))
		p.step("all", err, len(held))
		_, err = multilock.AcquireAll(ctx, b.Want(bson.M{"_id": 2}, "write", doclock.MaxWait(0)), b.Want(bson.M{"_id": 1}, "read", doclock.MaxWait(0)))
		p.step("none", err)
		p.step("release", held.Release(ctx))
	}},
	{"do: a lock around a function", "do: done", func(p *play) {
		locks := p.locker("a", rw)
		p.step("do", locks.Do(ctx, bson.M{"_id": 1}, "write", func(ctx context.Context, lease *doclock.Lease) error {
			p.step("within", nil)
			return lease.Update(ctx, inc)
		}))
	}},
	{"admin: inspect, break, sweep, release an owner", "break", func(p *play) {
		lease := p.try(p.locker("a", rw), "write")
		lock, err := admin.Inspect(ctx, p.coll, bson.M{"_id": 1})
		p.step("inspect", err, len(lock.Entries), lock.Entries[0].Owner, lock.Entries[0].Fence)
		broken, err := admin.Break(ctx, p.coll, lock.Entries[0])
		p.step("break", err, broken.Owner)
		p.step("the holder", lease.Update(ctx, inc))
		p.try(p.locker("b", rw), "read")
		count, err := admin.ReleaseOwner(ctx, p.coll, "b")
		p.step("release an owner", err, count)
	}},
}

// handOver has a lease end while a goroutine of the same process waits, or comes
// at that moment: both end alike, unless it waits in the document.
func (p *play) handOver(rules relations.Rules, tag string, end func(*doclock.Lease, context.Context) error) {
	p.Helper()
	locks := p.locker("a", rules)
	lease := p.try(locks, tag)
	came := make(chan *doclock.Lease, 1)
	failed := make(chan error, 1)
	go func() {
		next, err := locks.Acquire(ctx, bson.M{"_id": 1}, tag)
		came <- next
		failed <- err
	}()
	if rules[tag][tag].Kind == relations.Assertive {
		waits := bson.M{"_id": 1, "lock.tags." + tag + ".1": bson.M{"$exists": true}}
		for began := time.Now(); p.coll.FindOne(ctx, waits).Err() != nil; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				p.Fatal("it does not wait in the document")
			}
		}
	}
	check(p.T, end(lease, ctx))
	err := <-failed
	p.step("the next", err)
	p.step("its release", (<-came).Release(ctx))
}
