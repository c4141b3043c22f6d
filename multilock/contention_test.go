package multilock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	workers  = 16
	machines = 4 // mongo.Clients, each with a Locker of its own
	attempts = 600
)

// Sixteen workers use one document; half of the attempts are TryAcquire, half are
// an Acquire that waits. Two leases that exclude each other are never valid at
// the same time. No write is seen half done, and no write is lost. Fencing tokens
// increase in the order of the grants. Every waiter gets the lock.
func TestContention(t *testing.T) {
	exclusive := func(tags ...string) func(string) bool {
		return func(tag string) bool { return slices.Contains(tags, tag) }
	}
	for _, preset := range []struct {
		name   string
		rules  relations.Rules
		tags   []string          // as often as they are asked for
		writes func(string) bool // its holder is alone
	}{
		{"Exclusive", relations.Exclusive(), []string{"write"}, exclusive("write")},
		{"ReadPreferring", relations.ReadPreferring(), []string{"read", "read", "write"}, exclusive("write")},
		{"WritePreferring", relations.WritePreferring(), []string{"read", "read", "write"}, exclusive("write")},
		{"Fair", relations.Fair(), []string{"read", "read", "write"}, exclusive("write")},
		{"Semaphore", relations.Semaphore(3), []string{"slot"}, exclusive()},
		{"MultiGranularity", relations.MultiGranularity(), []string{"IS", "IS", "IX", "IX", "S", "SIX", "X"}, exclusive("X")},
	} {
		t.Run(preset.name, func(t *testing.T) {
			p := newPlace(t)
			c := &contest{place: p, rules: preset.rules, tags: preset.tags, writes: preset.writes, held: map[string]int{}}
			c.run()
		})
	}
}

// contest is one preset's turn.
type contest struct {
	*place
	rules  relations.Rules
	tags   []string
	writes func(string) bool

	granted, waited, written atomic.Int64
	newest                   atomic.Int64 // the greatest fencing token so far
	tries, waits             atomic.Int64 // attempts so far

	mu   sync.Mutex
	held map[string]int // valid leases, by tag
}

func (c *contest) run() {
	n := int64(attempts)
	if testing.Short() {
		n /= 3
	}
	var lockers []*multilock.Locker
	var watches []*watch
	for range machines {
		coll, w := c.watched()
		watches = append(watches, w)
		lockers = append(lockers, c.locker(coll, c.rules, doclock.TTL(30*time.Second)))
	}
	c.change(bson.M{"$set": bson.M{"a": 0, "b": 0}})
	begun := time.Now()
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for !c.Failed() {
				if i%2 == 0 {
					if c.waits.Add(1) > n/2 {
						return
					}
					c.attempt(lockers[i%machines], true)
					continue
				}
				k := c.tries.Add(1)
				if k > n/2 {
					return
				}
				for c.waits.Load() < k && !c.Failed() { // so that both go on to the end
					time.Sleep(time.Millisecond)
				}
				c.attempt(lockers[i%machines], false)
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	for _, l := range lockers {
		c.rest(l)
	}
	c.wantEntries()

	var doc struct{ A, B int64 }
	if err := c.coll.FindOne(context.Background(), flowers).Decode(&doc); err != nil {
		c.Fatal(err)
	}
	if doc.A != c.written.Load() || doc.B != doc.A {
		c.Errorf("the counters are %d and %d after %d increments under the lock", doc.A, doc.B, c.written.Load())
	}
	commands := 0
	for _, w := range watches {
		commands += w.count()
	}
	share := float64(c.granted.Load()) / float64(n)
	c.Logf("%d attempts in %v, %d commands: %.0f%% granted, %d of them waited for, %d writes",
		n, took.Round(time.Millisecond), commands, 100*share, c.waited.Load(), c.written.Load())
	if share < 0.3 {
		c.Errorf("only %.0f%% were granted", 100*share)
	}
}

func (c *contest) attempt(l *multilock.Locker, wait bool) {
	tag := c.tags[rand.N(len(c.tags))]
	before := c.newest.Load() // it was granted before we ask
	var doc struct{ A, B int64 }
	var lease *doclock.Lease
	var err error
	if wait {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		lease, err = l.Acquire(ctx, flowers, tag, doclock.Into(&doc))
	} else {
		lease, err = l.TryAcquire(context.Background(), flowers, tag, doclock.Into(&doc))
	}
	switch {
	case err == nil && wait:
		c.waited.Add(1)
	case err == nil:
	case wait && errors.Is(err, context.DeadlineExceeded), !wait && errors.Is(err, doclock.ErrConflict):
		return
	default:
		c.Errorf("%q, waiting %v: %v", tag, wait, err)
		return
	}
	c.granted.Add(1)
	c.enter(lease, before)
	if doc.A != doc.B {
		c.Errorf("%q sees a write half done: %d, %d", tag, doc.A, doc.B)
	}
	if !c.writes(tag) {
		c.leave(lease)
		if err := lease.Release(context.Background()); err != nil {
			c.Errorf("Release of %q: %v", tag, err)
		}
		return
	}
	if rand.N(4) == 0 { // half done for a while
		if err := lease.Update(context.Background(), bson.M{"$set": bson.M{"a": doc.A + 1}}); err != nil {
			c.Errorf("Update of %q: %v", tag, err)
		}
	}
	c.leave(lease)
	if err := lease.UpdateAndRelease(context.Background(), bson.M{"$set": bson.M{"a": doc.A + 1, "b": doc.B + 1}}); err != nil {
		c.Errorf("UpdateAndRelease of %q: %v", tag, err)
	}
	c.written.Add(1)
}

// enter notes a valid lease, and reports the leases that it excludes.
func (c *contest) enter(lease *doclock.Lease, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := lease.Tag()
	if err := lease.Err(); err != nil {
		c.Errorf("%q was granted and has ended: %v", own, err)
	}
	for other, n := range c.held {
		for _, r := range []relations.Relation{c.rules[own][other], c.rules[other][own]} {
			if r.Kind != relations.None && n > r.Allow {
				c.Errorf("%q was granted beside %d of %q", own, n, other)
			}
		}
	}
	c.held[own]++
	if lease.Fence() <= before {
		c.Errorf("the fencing token %d came after %d", lease.Fence(), before)
	}
	c.newest.Store(max(c.newest.Load(), lease.Fence()))
}

func (c *contest) leave(lease *doclock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[lease.Tag()]--
}
