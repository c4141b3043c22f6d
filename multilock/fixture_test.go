package multilock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
	return p.makeLocker(coll, rules, append([]doclock.Option{doclock.TTL(calm), waitTTL(calm)}, opts...)...)
}

func (p *place) makeLocker(coll *mongo.Collection, rules relations.Rules, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	l, err := multilock.New(coll, rules, opts...)
	must(p, err)
	p.Cleanup(func() { p.rest(l) })
	return l
}

// plain makes a Locker with the library's own times, for virtual time.
func (p *place) plain(rules relations.Rules, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	return p.makeLocker(p.coll, rules, opts...)
}

// with is an option that no user has.
func with(set func(*engine.Config)) doclock.Option {
	return engine.Option(func(c *engine.Config) error {
		set(c)
		return nil
	})
}

// short is a TTL that a Locker's option refuses, because the lease would not
// survive a broken connection. It keeps the tests short.
func short(ttl time.Duration) doclock.Option {
	return with(func(c *engine.Config) { c.TTL = ttl })
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

// clock is the time of the server, or of this machine, under the test's control.
type clock struct{ fixture.Clock }

// drive is the option of a Locker whose server uses the clock.
func (c *clock) drive() doclock.Option {
	return with(func(cfg *engine.Config) { cfg.Now = c.Now })
}

// turn is the option of a Locker whose machine uses the clock.
func (c *clock) turn() doclock.Option {
	return with(func(cfg *engine.Config) { cfg.Clock = func() engine.Reading { return engine.Reading(c.Read()) } })
}

// waitTTL is for how long a waiting entry lives after each confirm.
func waitTTL(d time.Duration) doclock.Option {
	return with(func(c *engine.Config) { c.WaitTTL = d })
}

// What a test calls, and what it demands of the answer.

// got is the lease of a call that must return one.
func (p *place) got(lease doclock.Lease, err error) doclock.Lease {
	p.Helper()
	must(p, err)
	return lease
}

// try demands to be granted at once.
func (p *place) try(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) doclock.Lease {
	p.Helper()
	lease, err := l.TryAcquire(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("TryAcquire %q: %v", tag, err)
	}
	return lease
}

// acquire demands to be granted, however long that takes.
func (p *place) acquire(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) doclock.Lease {
	p.Helper()
	return p.got(l.Acquire(p.bounded(), flowers, tag, opts...))
}

func (p *place) enqueue(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *multilock.Ticket {
	p.Helper()
	ticket, err := l.Enqueue(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("Enqueue %q: %v", tag, err)
	}
	return ticket
}

func (p *place) release(lease doclock.Lease) {
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

// asks are the ways to ask, and to have what is granted at once.
var asks = map[string]func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error){
	"TryAcquire": (*multilock.Locker).TryAcquire,
	"Acquire":    (*multilock.Locker).Acquire,
	"Enqueue": func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
		ticket, err := l.Enqueue(ctx, filter, tag, opts...)
		if ticket == nil {
			return nil, err
		}
		return ticket.Confirm(ctx)
	},
	"Do": func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
		return nil, l.Do(ctx, filter, tag, func(context.Context, doclock.Lease) error { return nil }, opts...)
	},
}

// leaseCalls are the calls of a lease that send something.
var leaseCalls = map[string]func(doclock.Lease, context.Context) error{
	"Renew":            doclock.Lease.Renew,
	"Update":           func(l doclock.Lease, ctx context.Context) error { return l.Update(ctx, plusOne) },
	"UpdateAndRelease": func(l doclock.Lease, ctx context.Context) error { return l.UpdateAndRelease(ctx, plusOne) },
	"Delete":           doclock.Lease.Delete,
	"Detach":           func(l doclock.Lease, ctx context.Context) error { return errOf(l.Detach(ctx)) },
	"Convert":          func(l doclock.Lease, ctx context.Context) error { return errOf(l.Convert(ctx, "read")) },
	"Release":          doclock.Lease.Release,
	"Releases":         func(l doclock.Lease, ctx context.Context) error { return multilock.Leases{l}.Release(ctx) },
}

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

// acquire calls Acquire in another goroutine.
func acquire(t testing.TB, ctx context.Context, l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *pending[doclock.Lease] {
	return begin(t, func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, tag, opts...) })
}

// granted demands that a call returns a lease.
func (p *place) granted(call *pending[doclock.Lease]) doclock.Lease {
	p.Helper()
	return p.got(call.wait())
}

// waiting waits until a tag has a waiting entry in the document.
func (p *place) waiting(tag string) (id string) {
	p.Helper()
	p.eventually("an entry waits", func() bool {
		for _, e := range p.entries(tag) {
			if !e.held() {
				id = string(e.ID.Data)
				return true
			}
		}
		return false
	})
	return id
}

// queued waits until n acquires wait in the document's wait queue.
func (p *place) queued(l *multilock.Locker, n int) {
	p.Helper()
	p.eventually("they wait", func() bool { return l.Waiters(1) == n })
}

// sends runs a call that must send n commands. Where the server has members, the proof of a negative answer follows them.
func (p *place) sends(w *fixture.Commands, n int, name string, call func() error, is ...error) {
	p.Helper()
	w.Take()
	err := call()
	sent, more := w.All(), 0
	if n > 0 && (errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrNotFound)) && mongotest.HasMembers(p) {
		more = 1
	}
	if len(sent) != n+more || slices.ContainsFunc(sent[:n], func(c bson.Raw) bool { return fixture.Name(c) != "findAndModify" }) || more > 0 && !fixture.IsProof(sent[n]) {
		p.Errorf("%s sent %v; want %d", name, sent, n+more)
	}
	if len(is) == 0 && err != nil {
		p.Errorf("%s: %v", name, err)
	}
	p.want(err, is...)
}

// giveUp calls in a context that ends as the fault delays the command's reply. The
// caller has its answer at once, and the command goes on in the background.
func (p *place) giveUp(net *faultnet.Net, call func(context.Context) error, is ...error) *faultnet.Fault {
	p.Helper()
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(p.Context())
	calling := begin(p, func() (struct{}, error) { return struct{}{}, call(ctx) })
	wait(p, slow.Fired())
	cancel()
	p.want(errOf(calling.wait()), append(is, context.Canceled)...)
	return slow
}

// pair is two programs with locks in the same documents: here meets the faults, and there
// what it leaves.
type pair struct {
	*place
	here, there *multilock.Locker
	heard       *heard            // by here's observer
	net         *faultnet.Net     // here's; or nil
	watch       *fixture.Commands // that here sends; or nil
}

// outage runs a test of two programs whose server may be away, in virtual time.
func outage(t *testing.T, test func(o *pair)) {
	t.Helper()
	inBubble(t, func(p *place) {
		heard, hear := p.heard()
		test(&pair{place: p, heard: heard, here: p.plain(relations.Fair(), hear), there: p.plain(relations.Fair())})
		p.mem.Up()
	})
}

// lately runs a test of two programs in whose network a request may be late. No entry
// expires while it runs.
func lately(t *testing.T, rules relations.Rules, test func(l *pair), opts ...doclock.Option) {
	t.Helper()
	inBubble(t, func(p *place) {
		heard, hear := p.heard()
		l := &pair{place: p, net: faultnet.New(), watch: &fixture.Commands{}, heard: heard}
		coll := p.Through(options.Client().SetDialer(l.net).SetRetryWrites(false).SetMonitor(l.watch.Monitor()))
		l.here = p.locker(coll, rules, append([]doclock.Option{doclock.TTL(time.Hour), hear}, opts...)...)
		l.there = p.locker(p.coll, rules, doclock.TTL(time.Hour))
		test(l)
	})
}

// onCluster runs a test on a replica set, in virtual time. The test's own hand has a
// client that no fault cuts off.
func onCluster(t *testing.T, test func(r *place)) {
	t.Helper()
	mongotest.Virtual(t, func(t *testing.T) {
		c := mongotest.Memory(t)
		hand := c.Connect().Database("test").Collection("documents")
		p := &place{Document: &fixture.Document{TB: t, Hand: hand, ID: int32(1)}, coll: hand, mem: c}
		p.insert()
		test(p)
	}, locktest.ReplicaSet())
}

// ours makes a Locker whose client faults cut off.
func (p *place) ours(opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	return p.makeLocker(p.mem.Collection("documents"), relations.WritePreferring(), opts...)
}

// heard are the events that a Locker's observer got.
type heard struct {
	testing.TB
	mu  sync.Mutex
	all []doclock.Event
}

func (p *place) heard() (*heard, doclock.Option) { return hear(p) }

// hear makes an observer; its option is for a Locker.
func hear(t testing.TB) (*heard, doclock.Option) {
	h := &heard{TB: t}
	return h, doclock.OnEvent(func(_ context.Context, e doclock.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, e)
	})
}

// of are the events of a kind.
func (h *heard) of(kind doclock.EventKind) []doclock.Event {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.all), func(e doclock.Event) bool { return e.Kind != kind })
}

// want are the events since the last call, which must be these, each as "how commands",
// or "kind commands" without a how, or with any number of commands without that number.
func (h *heard) want(want ...string) []doclock.Event {
	h.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for i, e := range h.all {
		what := cmp.Or(string(e.How), string(e.Kind))
		got = append(got, fmt.Sprint(what, " ", e.Commands))
		if i < len(want) && what == want[i] {
			got[i] = want[i]
		}
	}
	if !slices.Equal(got, want) {
		h.Fatalf("got %q, want %q", got, want)
	}
	all := h.all
	h.all = nil
	return all
}

// relayTTL is so long that no entry expires in a test, and that a waiter doesn't
// poll while its own process has the lock.
const relayTTL = time.Hour

// relay is a holder of one Locker and its successor. The test controls the
// network's faults and the machine's clocks.
type relay struct {
	*place
	clock
	net       *faultnet.Net
	locks     *multilock.Locker
	holder    doclock.Lease
	successor *pending[doclock.Lease]
	cancel    context.CancelFunc // of the successor
}

// relay makes a relay whose holder has a lease under the tag.
func (p *place) relay(rules relations.Rules, tag string, opts ...doclock.Option) *relay {
	p.Helper()
	r := &relay{place: p, net: faultnet.New()}
	coll := r.Through(options.Client().SetDialer(r.net).SetRetryWrites(false))
	r.locks = r.locker(coll, rules, append([]doclock.Option{doclock.TTL(relayTTL), waitTTL(relayTTL), r.turn()}, opts...)...)
	r.holder = r.try(r.locks, tag)
	return r
}

// queue makes a waiter under the tag wait for the document.
func (r *relay) queue(tag string) {
	r.Helper()
	var ctx context.Context
	ctx, r.cancel = context.WithTimeout(context.Background(), patience) // and not the relayTTL
	r.Cleanup(r.cancel)
	r.successor = acquire(r, ctx, r.locks, tag)
	r.queued(r.locks, 1)
}

// inherited is the successor's lease.
func (r *relay) inherited() doclock.Lease {
	r.Helper()
	return r.granted(r.successor)
}

// remains checks the remaining time of the successor's lease, which counts from
// that time ago.
func (r *relay) remains(lease doclock.Lease, ago time.Duration) {
	r.Helper()
	const resolution = time.Millisecond // of the server's clock
	if got, want := lease.Remaining(), relayTTL-ago-resolution; got != want {
		r.Errorf("%v remain, want %v", got, want)
	}
}

// The commands that hand a lease over, and how much each adds to the document's
// total.
var handoffs = map[string]struct {
	release func(doclock.Lease) error
	adds    int32
}{
	"Release":           {func(l doclock.Lease) error { return l.Release(context.Background()) }, 0},
	"a classic update":  {func(l doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOne) }, 1},
	"a pipeline update": {func(l doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOneInAPipeline) }, 1},
}

var (
	plusOne            = bson.M{"$inc": bson.M{"total": 1}}
	plusOneInAPipeline = bson.A{bson.M{"$set": bson.M{"total": bson.M{"$add": bson.A{"$total", 1}}}}}
)

// eachHandoff runs body for each of them, in a relay of its own.
func eachHandoff(t *testing.T, body func(r *relay, release func() error, adds int32)) {
	for name, h := range handoffs {
		virtually(t, name, func(p *place) {
			r := p.relay(relations.Exclusive(), "write")
			r.queue("write")
			body(r, func() error { return h.release(r.holder) }, h.adds)
		})
	}
}

// total is the document's total.
func (p *place) total() int32 {
	p.Helper()
	return int32(p.Stored().Lookup("total").AsInt64())
}

// releasing runs a release in a goroutine beside the test.
func (r *relay) releasing(release func() error) *pending[struct{}] {
	return begin(r, func() (struct{}, error) { return struct{}{}, release() })
}
