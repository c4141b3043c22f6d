package multilock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var (
	conflicting = mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "write conflict"}
	stepsDown   = mongo.CommandError{Code: 189, Name: "PrimarySteppedDown", Message: "stepped down"}
)

// busy is what a client does that has trouble with its server. What prepare returns runs
// in the trouble.
type busy struct {
	prepare func(p *place, coll *mongo.Collection) func(context.Context)
	only    []locktest.Kind // the commands that fail, or all
}

const many = 110 // leases, more than one command renews

var begunBefore = func(context.Context) {}

// In a minute in which each command fails, a client sends no more commands than in a
// minute without a failure (but for a tenth, by chance), with the repeats that the driver
// sends by itself. Two clients don't send them in step.
func TestTroubleCostsNoCommands(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]busy{
		"acquires, writes and releases": {prepare: works},
		"tries":                         {prepare: tries},
		"waiters that are refused":      {prepare: waits(relations.Exclusive(), flowers)},
		"waiters with a place":          {prepare: waits(relations.Fair(), flowers)},
		"claims":                        {prepare: waits(relations.Exclusive(), byName, doclock.SkipLocked())},
		"a kept lease":                  {prepare: keeps(1)},
		"110 kept leases":               {prepare: keeps(many)},
		"110 kept leases, and reads":    {prepare: keeps(many), only: []locktest.Kind{locktest.Renewals}},
		"clean-ups":                     {prepare: owes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			well, refusals := len(b.minute(t, nil)), []mongo.CommandError{overloaded}
			if *long {
				refusals = append(refusals, conflicting)
			}
			if name == "acquires, writes and releases" {
				refusals = append(refusals, stepsDown)
			}
			for _, refusal := range refusals {
				one, other := b.minute(t, &refusal), b.minute(t, &refusal)
				t.Logf("%-30s %-32s %5d, and %5d without", name, refusal.Name, len(one), well)
				most := 2*well + well/5 // pauses are drawn
				if name == "tries" {
					most *= 2 // it can't rest for longer than it lasts
				}
				if len(one)+len(other) > most {
					t.Errorf("%s: %d and %d commands, without trouble %d", refusal.Name, len(one), len(other), well)
				}
				inStep := slices.DeleteFunc(one[len(one)/2:], func(at time.Duration) bool { return !slices.Contains(other, at) })
				if len(inStep) > 1 { // one may be a clean-up at the end of the entry's life
					t.Errorf("%s: both send commands after %v", refusal.Name, inStep)
				}
			}
		})
	}
}

// minute is when a client sends its commands.
func (b busy) minute(t *testing.T, refusal *mongo.CommandError) (sent []time.Duration) {
	t.Helper()
	inBubble(t, func(p *place) {
		var documents []any
		for i := range many {
			documents = append(documents, doclock.ID(10+i))
		}
		must(p, errOf(p.coll.InsertMany(p.Context(), documents)))
		var lock sync.Mutex
		var begun time.Time
		coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(bson.Raw) {
			lock.Lock()
			defer lock.Unlock()
			if at := time.Since(begun); at < time.Minute {
				sent = append(sent, at)
			}
		})))
		work := b.prepare(p, coll)
		if refusal != nil {
			p.mem.Fail(1<<30, *refusal, b.only...)
		}
		lock.Lock()
		begun = time.Now()
		lock.Unlock()
		ctx, cancel := context.WithCancel(p.Context())
		work(ctx)
		time.Sleep(time.Minute)
		cancel()
		p.mem.Fail(0, mongo.CommandError{})
		time.Sleep(time.Minute)
	})
	return sent
}

// works has a hundred goroutines work under locks, as fast as they get them.
func works(p *place, coll *mongo.Collection) func(context.Context) {
	l := p.locker(coll, relations.Exclusive())
	return again(100, func(ctx context.Context, i int) {
		_ = l.Do(ctx, doclock.ID(10+i), "write", func(ctx context.Context, lease doclock.Lease) error {
			time.Sleep(2 * time.Second)
			return lease.Update(ctx, bson.M{"$inc": bson.M{"total": 1}})
		})
	})
}

// tries has eight goroutines try to get a lock that is held, twice a second.
func tries(p *place, coll *mongo.Collection) func(context.Context) {
	p.try(p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour)), "write")
	l := p.locker(coll, relations.Exclusive())
	return again(8, func(ctx context.Context, _ int) {
		_, _ = l.TryAcquire(ctx, flowers, "write")
		time.Sleep(500 * time.Millisecond)
	})
}

// waits has twenty goroutines wait for a lock that is held. After an error they wait a
// second.
func waits(rules relations.Rules, filter any, opts ...doclock.AcquireOption) func(*place, *mongo.Collection) func(context.Context) {
	return func(p *place, coll *mongo.Collection) func(context.Context) {
		p.try(p.locker(p.coll, rules, doclock.TTL(time.Hour)), "write")
		l := p.locker(coll, rules, waitTTL(5*time.Second))
		return again(20, func(ctx context.Context, _ int) {
			_, _ = l.Acquire(ctx, filter, "write", opts...)
			time.Sleep(time.Second)
		})
	}
}

// keeps has leases that are renewed.
func keeps(leases int) func(*place, *mongo.Collection) func(context.Context) {
	return func(p *place, coll *mongo.Collection) func(context.Context) {
		l := p.locker(coll, relations.Exclusive(), doclock.TTL(10*time.Second))
		for i := range leases {
			p.got(l.TryAcquire(p.Context(), doclock.ID(10+i), "write")).KeepAlive(p.Context())
		}
		return begunBefore
	}
}

// owes has acquires whose callers have left, and that may still be executed.
func owes(p *place, coll *mongo.Collection) func(context.Context) {
	l := p.locker(coll, relations.Exclusive(), doclock.TTL(time.Minute))
	for i := range 50 {
		p.mem.LoseRequests(1, locktest.Acquires)
		ctx, cancel := context.WithTimeout(p.Context(), time.Millisecond/2)
		p.want(errOf(l.TryAcquire(ctx, doclock.ID(10+i), "write")), doclock.ErrNotAcquired)
		cancel()
		time.Sleep(time.Millisecond) // until the connection breaks
	}
	return begunBefore
}

// again has goroutines do something again and again.
func again(goroutines int, do func(context.Context, int)) func(context.Context) {
	return func(ctx context.Context) {
		for i := range goroutines {
			go func() {
				for ctx.Err() == nil {
					do(ctx, i)
				}
			}()
		}
	}
}

// A lease is not lost by waiting: the server's trouble may end when a quarter of its
// time is left.
func TestALeaseOutlivesTrouble(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for name, renew := range map[string]func(p *place, l *multilock.Locker, lease doclock.Lease){
		"one that is kept": func(p *place, _ *multilock.Locker, lease doclock.Lease) { lease.KeepAlive(p.Context()) },
		"two that are kept": func(p *place, l *multilock.Locker, lease doclock.Lease) {
			lease.KeepAlive(p.Context())
			p.got(l.TryAcquire(p.Context(), doclock.ID(2), "write")).KeepAlive(p.Context())
		},
		"Renew": func(p *place, _ *multilock.Locker, lease doclock.Lease) {
			time.AfterFunc(ttl/3, func() { ok(p, lease.Renew(p.Context())) })
		},
	} {
		for _, refusal := range []mongo.CommandError{overloaded, conflicting} {
			for seed := range 8 {
				virtually(t, fmt.Sprintf("%s/%s/%d", name, refusal.Name, seed), func(p *place) {
					l := p.plain(relations.Exclusive(), doclock.TTL(ttl))
					lease := p.try(l, "write")
					renew(p, l, lease)
					p.mem.Fail(1<<30, refusal)
					time.Sleep(ttl * 3 / 4)
					p.mem.Fail(0, refusal)
					time.Sleep(ttl / 2)
					ok(p, lease.Err())
					p.release(lease)
				})
			}
		}
	}
}
