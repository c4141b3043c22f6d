package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// patience bounds every wait for something that must happen.
const patience = fixture.Patience

// place is one document: _id 1, name "flowers", in a collection of the test's own.
// It is on the real server, or on one in memory, in virtual time.
type place struct {
	*fixture.Document
	coll *mongo.Collection // the test's own hand
	mem  *locktest.Server  // in virtual time
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

// virtual runs a test in virtual time, beside others. There is a document 2, too.
func virtual(t *testing.T, test func(p *place)) {
	t.Helper()
	t.Parallel()
	inBubble(t, test)
}

// virtually is virtual for a subtest.
func virtually(t *testing.T, name string, test func(p *place)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

func inBubble(t *testing.T, test func(p *place)) {
	t.Helper()
	mongotest.Virtual(t, func(t *testing.T) {
		p := newPlace(t)
		p.mem = mongotest.Memory(t)
		must(t, errOf(p.coll.InsertOne(p.Context(), doclock.ID(2))))
		test(p)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf is the error of a call whose result doesn't matter.
func errOf[T any](_ T, err error) error { return err }

// ok is must for any goroutine.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func (p *place) insert() {
	p.Helper()
	p.Insert(bson.E{Key: "name", Value: "flowers"}, bson.E{Key: "total", Value: 1})
}

// within is a context that ends after a time.
func (p *place) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(p.Context(), d)
	p.Cleanup(cancel)
	return ctx
}

// faulty is the collection through a network that fails on demand.
func (p *place) faulty() (*mongo.Collection, *faultnet.Net) {
	p.Helper()
	net := faultnet.New()
	return p.Through(options.Client().SetDialer(net)), net
}

// watched is the collection through a client whose commands are counted.
func (p *place) watched() (*mongo.Collection, *fixture.Commands) {
	p.Helper()
	w := &fixture.Commands{}
	return p.Through(options.Client().SetMonitor(w.Monitor())), w
}

// calm is the TTL of leases on the real server: they outlive whatever keeps the machine busy.
const calm = 30 * time.Second

// locker makes a Locker. It is closed before the test ends, and must come to rest
// then.
func (p *place) locker(coll *mongo.Collection, rules relations.Rules, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	l, err := multilock.New(coll, rules, append([]doclock.Option{doclock.TTL(calm), waitTTL(calm)}, opts...)...)
	must(p, err)
	p.Cleanup(func() { p.rest(l) })
	return l
}

// plain makes a Locker with the library's own times, for virtual time.
func (p *place) plain(rules relations.Rules, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	l, err := multilock.New(p.coll, rules, opts...)
	must(p, err)
	p.Cleanup(func() { p.rest(l) })
	return l
}

// short is a TTL that a Locker's option refuses, because the lease would not
// survive a broken connection. It keeps the tests short.
func short(ttl time.Duration) doclock.Option {
	return engine.Option(func(c *engine.Config) error {
		c.TTL = ttl
		return nil
	})
}

// rest closes a Locker and waits for what it runs in the background.
func (p *place) rest(l *multilock.Locker) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ok(p, fixture.Rested(l.Close(ctx)))
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
func (p *place) wantEntries(leases ...doclock.Lease) {
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

// erase removes all entries of a tag, as an outside writer may.
func (p *place) erase(tag string) { p.Change(bson.M{"$set": bson.M{"lock.tags." + tag: bson.A{}}}) }

// clock is the server's time, under the test's control.
type clock struct{ fixture.Clock }

// drive is the option of a Locker whose server uses the clock.
func (c *clock) drive() doclock.Option {
	return engine.Option(func(cfg *engine.Config) error {
		cfg.Now = c.Now
		return nil
	})
}

// turned are this machine's clocks, under the test's control.
type turned struct{ fixture.Clock }

func (c *turned) option() doclock.Option {
	return engine.Option(func(cfg *engine.Config) error {
		cfg.Clock = func() engine.Reading { return engine.Reading(c.Read()) }
		return nil
	})
}

// waitTTL is for how long a waiting entry lives after each confirm.
func waitTTL(d time.Duration) doclock.Option {
	return engine.Option(func(c *engine.Config) error {
		c.WaitTTL = d
		return nil
	})
}
