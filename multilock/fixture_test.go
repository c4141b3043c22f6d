package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// patience bounds every wait for something that must happen.
const patience = fixture.Patience

// place is one document on the real server: _id 1, name "flowers", in a
// collection of the test's own.
type place struct {
	*fixture.Document
	coll *mongo.Collection // the test's own hand
}

var (
	flowers = bson.M{"_id": 1}          // a filter that pins the document
	byName  = bson.M{"name": "flowers"} // one that doesn't
)

func newPlace(t testing.TB) *place {
	t.Helper()
	d := fixture.NoDocument(t)
	p := &place{Document: d, coll: d.Hand}
	p.insert()
	return p
}

func (p *place) insert() {
	p.Helper()
	p.Insert(bson.E{Key: "name", Value: "flowers"}, bson.E{Key: "total", Value: 1})
}

// via is the same collection through a client of its own.
func (p *place) via(o *options.ClientOptions) *mongo.Collection {
	p.Helper()
	return p.Through(o)
}

// faulty is the collection through a network that fails on demand.
func (p *place) faulty() (*mongo.Collection, *faultnet.Net) {
	p.Helper()
	net := faultnet.New()
	return p.via(options.Client().SetDialer(net)), net
}

// watched is the collection through a client whose commands are counted.
func (p *place) watched() (*mongo.Collection, *watch) {
	p.Helper()
	w := &watch{}
	return p.via(options.Client().SetMonitor(w.monitor(p.coll.Database().Name()))), w
}

// locker makes a Locker. It is closed before the test ends, and must come to rest
// then.
func (p *place) locker(coll *mongo.Collection, rules relations.Rules, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	l, err := multilock.New(coll, rules, opts...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { p.rest(l) })
	return l
}

// short is a TTL that a Locker's option refuses, because the lease would not
// survive a broken connection. It keeps the tests short.
func short(ttl time.Duration) doclock.Option {
	return func(c *engine.Config) error {
		c.TTL = ttl
		return nil
	}
}

// shortWait is the same for a WaitTTL.
func shortWait(ttl time.Duration) doclock.Option {
	return func(c *engine.Config) error {
		c.WaitTTL = ttl
		return nil
	}
}

// rest closes a Locker and waits for what it runs in the background.
func (p *place) rest(l *multilock.Locker) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		p.Errorf("Close: %v", err)
	}
}

// lock is the lock field in the document.
type lock struct {
	Fence int64
	Tags  map[string][]entry
	Done  []bson.Binary
}

type entry struct {
	ID             bson.Binary
	Owner          string
	Seq            int64
	Fence          int64
	Since, Expires time.Time
	N              int64
	Key            bson.Binary
	Detached       bool
	Until          time.Time
}

func (e entry) held() bool { return e.Fence != 0 }

func (p *place) lock() lock {
	p.Helper()
	var doc struct{ Lock lock }
	p.Decode(&doc)
	return doc.Lock
}

// entries are those of a tag, or of all tags.
func (p *place) entries(tags ...string) (all []entry) {
	p.Helper()
	byTag := p.lock().Tags
	for _, tag := range tags {
		all = append(all, byTag[tag]...)
	}
	if len(tags) == 0 {
		for _, some := range byTag {
			all = append(all, some...)
		}
	}
	return all
}

// wantEntries fails unless just these leases' entries are in the document.
func (p *place) wantEntries(leases ...*doclock.Lease) {
	p.Helper()
	entries := p.entries()
	ids := map[string]bool{}
	for _, e := range entries {
		ids[string(e.ID.Data)] = true
	}
	for _, l := range leases {
		id := l.ID()
		if !ids[string(id[:])] {
			p.Errorf("the entry of lease %v is not in the document: %v", id, entries)
		}
	}
	if len(entries) != len(leases) {
		p.Errorf("there are %d entries in the document, and should be %d: %+v", len(entries), len(leases), entries)
	}
}

func (p *place) raw() bson.Raw {
	p.Helper()
	return p.Stored()
}

// change writes to the document as an outside writer does.
func (p *place) change(update bson.M) {
	p.Helper()
	p.Change(update)
}

// erase removes all entries of a tag, as an outside writer may.
func (p *place) erase(tag string) { p.change(bson.M{"$set": bson.M{"lock.tags." + tag: bson.A{}}}) }

func (p *place) remove() {
	p.Helper()
	p.Delete()
}

// try demands to be granted at once.
func (p *place) try(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *doclock.Lease {
	p.Helper()
	lease, err := l.TryAcquire(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("TryAcquire %q: %v", tag, err)
	}
	return lease
}

func (p *place) enqueue(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *multilock.Ticket {
	p.Helper()
	ticket, err := l.Enqueue(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("Enqueue %q: %v", tag, err)
	}
	return ticket
}

func (p *place) release(lease *doclock.Lease) {
	p.Helper()
	if err := lease.Release(p.bounded()); err != nil {
		p.Fatalf("Release: %v", err)
	}
}

// want fails unless err is all of targets. An acquire's error is never of
// unknown outcome, and is a single line.
func (p *place) want(err error, targets ...error) {
	p.Helper()
	if errors.Is(err, doclock.ErrNotAcquired) && (errors.Is(err, doclock.ErrOutcomeUnknown) || strings.Contains(err.Error(), "\n")) {
		p.Errorf("an acquire ended with %q", err)
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			p.Errorf("got error %v, want one that is %q", err, target)
		}
	}
}

func (p *place) wantNot(err, target error) {
	p.Helper()
	if errors.Is(err, target) {
		p.Errorf("got error %v, which must not be %q", err, target)
	}
}

// conflict demands a conflict.
func (p *place) conflict(err error) *doclock.ConflictError {
	p.Helper()
	var c *doclock.ConflictError
	if !errors.As(err, &c) {
		p.Fatalf("got error %v, want a conflict", err)
	}
	return c
}

// eventually waits for a condition.
func (p *place) eventually(what string, holds func() bool) {
	p.Helper()
	fixture.Eventually(p, what, holds)
}

// bounded is a context for what should not take long.
func (p *place) bounded() context.Context { return fixture.Bounded(p) }

// pending is a call in another goroutine.
type pending[T any] struct {
	testing.TB
	done  chan struct{}
	value T
	err   error
}

func begin[T any](t testing.TB, call func() (T, error)) *pending[T] {
	c := &pending[T]{TB: t, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = call()
	}()
	return c
}

// wait waits for the call's end.
func (c *pending[T]) wait() (T, error) {
	c.Helper()
	wait(c, c.done)
	return c.value, c.err
}

func wait(t testing.TB, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it took too long")
	}
}

// watch counts commands.
type watch struct{ fixture.Commands }

func (w *watch) monitor(string) *event.CommandMonitor { return w.Monitor() }

// commands are the names of those sent since the last call.
func (w *watch) commands() []string { return w.Take() }
func (w *watch) count() int         { return w.Count() }

// clock is the server's time, under the test's control.
type clock struct{ fixture.Clock }

func newClock() *clock { return &clock{} }

func (c *clock) now() time.Time       { return c.Now() }
func (c *clock) pass(d time.Duration) { c.Pass(d) }

// drive is the option of a Locker whose server uses the clock.
func (c *clock) drive() doclock.Option {
	return func(cfg *engine.Config) error {
		cfg.Now = c.Now
		return nil
	}
}

// turned are this machine's clocks, under the test's control.
type turned struct{ fixture.Clock }

func (c *turned) pass(d time.Duration) { c.Pass(d) }

func (c *turned) option(cfg *engine.Config) error {
	cfg.Clock = func() engine.Reading { return engine.Reading(c.Read()) }
	return nil
}
