package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// run is what one process of a simulation has and records.
type run struct {
	world
	groups   []*group
	programs []*program
	operator *operator
	history  *history.Writer
	clock    history.Clock

	mu       sync.Mutex // of all that follows, and of what it points to
	calls    []*call
	acquires []*acquire
	holdings []*holding
	tokens   []*token
	tickets  map[string]bool // the ids of those that were left alone
	over     bool            // no fault comes any more
	rests    time.Time       // until then a program may send nothing, for an overload
	found    []string        // violations that were found at once
}

// world is what differs between a server in memory, in virtual time, and a real one.
type world struct {
	shape
	mem    *locktest.Server // or nil
	faulty bool             // calls meet faults
	pace   time.Duration    // how many times as fast as in virtual time it goes
	apart  time.Duration    // by which members' clocks are set wrong at most; 0: there is one member
}

func (w *world) virtual() bool { return w.mem != nil }

// exact says that time is virtual and there is one server: each duration is exact.
func (w *world) exact() bool { return w.virtual() && w.apart == 0 }

func newRun(w world, groups []*group, out *history.Writer) *run {
	return &run{world: w, groups: groups, history: out, clock: history.NewClock(), tickets: map[string]bool{}}
}

// These begin the names of faults that were not of a real server.
const (
	inMemory  = "in memory: "
	ofCluster = "replica set: "
)

// fire counts a fault, also if the process is killed.
func (s *run) fire(fault string) {
	switch {
	case s.exact():
		fault = inMemory + fault
	case s.virtual():
		fault = ofCluster + fault
	}
	s.history.Fault(fault)
}

// fault is a violation that is found at once.
func (s *run) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, fmt.Sprintf(format, args...))
}

func (s *run) peaceful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// drive has some callers make one turn after the other.
func (s *run) drive(callers int, more func() bool) {
	var driving sync.WaitGroup
	for i := range callers {
		r := s.runner(i)
		driving.Go(func() {
			for more() {
				r.turnOf(s.programs[r.IntN(len(s.programs))])
				r.pause(400 * time.Millisecond)
			}
		})
	}
	driving.Wait()
}

// runner is one goroutine that acts at random.
type runner struct {
	*run
	*rand.Rand
	number int
	writes *atomic.Int64
}

// runner makes one with a fate of its own.
func (s *run) runner(number int) runner {
	return runner{s, rand.New(rand.NewPCG(s.seed, uint64(number))), number, &atomic.Int64{}}
}

// upTo is a random duration, at most this long in virtual time.
func (r runner) upTo(most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(max(1, most/r.pace))))
}

func (r runner) pause(most time.Duration) { time.Sleep(r.upTo(most)) }

// one reports true once in n times.
func (r runner) one(n int) bool { return r.IntN(n) == 0 }

// harms says that a call may meet a fault of its own.
func (r runner) harms() bool { return r.virtual() && r.faulty && !r.peaceful() }

// close closes a program's Lockers, and waits for what they run.
func (s *run) close(p *program) {
	s.mu.Lock()
	if p.closed.IsZero() {
		p.closed = time.Now()
	}
	s.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), time.Hour) // longer than anything that Close waits for
	defer stop()
	var closing sync.WaitGroup
	r := s.runner(1000 + p.number)
	hurried := !r.one(4)
	most := r.upTo(100 * time.Millisecond)
	shut := func(l interface{ Close(context.Context) error }, g *group) {
		if hurried {
			s.hurry(l, most, p.ttl(g))
		}
		s.left(p, l.Close(ctx))
	}
	closing.Go(func() { shut(p.leader, s.groups[len(s.groups)-1]) })
	for g, l := range p.lockers {
		closing.Go(func() { shut(l, g) })
	}
	closing.Wait()
}

// hurry is a Close whose context ends, and with it those of the running functions. An
// attempt later Close has named what it leaves.
func (s *run) hurry(l interface{ Close(context.Context) error }, most, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	begun := time.Now()
	err := l.Close(ctx)
	if took := time.Since(begun); s.exact() && took > most+ttl/3 {
		s.fault("Close took %v, and should have taken %v and an attempt: %v", took, most, err)
	}
	if ctx.Err() != nil {
		s.fire(FaultHurried)
	}
}

// left judges what Close returns. It says what it leaves: leases that are left alone, and
// after a fault entries that nobody holds.
func (s *run) left(p *program, err error) {
	if err == nil {
		return
	}
	entries := strings.Contains(err.Error(), "may leave entries that nobody holds")
	if !entries && strings.HasPrefix(err.Error(), "doclock: Close leaves leases that nobody has released") {
		return
	}
	s.mu.Lock()
	p.left = cmp.Or(p.left, err)
	s.mu.Unlock()
	if !s.faulty || !entries {
		s.fault("Close returned %v", err)
	}
}

// group is documents under the same rules. A program has one Locker for them.
type group struct {
	name      string
	rules     relations.Rules
	documents []string
	ttl       time.Duration
	waitTTL   time.Duration
	tolerance time.Duration

	terms   bool     // acquires have terms of their own, and leases are detached and converted
	made    []string // those that an Upsert makes
	claims  bool     // an acquire may ask for any of the documents
	jobs    bool     // no acquire asks for one of them by its name
	deleted []string // those that are deleted, and come back
}

// office is the group of the document for whose lock programs campaign.
func office(ttl, tolerance time.Duration) *group {
	return &group{name: "office", rules: relations.Exclusive(), documents: []string{"office"}, ttl: ttl, waitTTL: ttl, tolerance: tolerance, terms: true}
}

// documentsOf are the documents of groups as the history's checker needs them, without their logs.
func documentsOf(groups []*group) (all []history.Document) {
	for _, g := range groups {
		for _, name := range append(slices.Clone(g.documents), g.made...) {
			all = append(all, history.Document{
				ID: name, Name: g.name, Rules: history.Plain(g.rules),
				TTL: g.ttl.Milliseconds(), WaitTTL: g.waitTTL.Milliseconds(), Tolerance: g.tolerance.Milliseconds(),
				Terms: g.terms, Deleted: slices.Contains(g.deleted, name),
			})
		}
	}
	return all
}

// program is one client of the server with its Lockers.
type program struct {
	number   int
	client   *mongo.Client
	coll     *mongo.Collection
	recorder *history.Recorder
	lockers  map[*group]*multilock.Locker
	leader   *writelock.Locker
	strikes  [2]atomic.Pointer[func()] // faults that wait for a request, and for the end of a command
	own      time.Duration             // its TTL, or 0: that of the group
	upsert   bool
	shared   string       // the tag whose holders share an entry, or ""
	closed   time.Time    // when its Close began, or zero
	left     error        // of its Close
	ahead    atomic.Int64 // of its wall clock, in nanoseconds
	pace     pace
	events   []*heard // in the order of their delivery by each Locker
}

func (s *run) connect(p *program, collection *mongo.Collection) (err error) {
	p.coll, p.lockers = collection, map[*group]*multilock.Locker{}
	for i, g := range s.groups {
		if p.lockers[g], err = multilock.New(collection, g.rules, s.options(p, g)...); err != nil {
			return fmt.Errorf("rules %s: %w", g.name, err)
		}
		if i == 0 {
			if p.leader, err = writelock.New(collection, s.options(p, s.groups[len(s.groups)-1])...); err != nil {
				return err
			}
		}
	}
	return nil
}

// ttl is that of a program's leases, without terms of their own.
func (p *program) ttl(g *group) time.Duration {
	if p.own > 0 {
		return p.own
	}
	return g.ttl
}

func (p *program) name() string { return p.coll.Database().Name() + "." + p.coll.Name() }

// shares says that the lease may be one of several of an entry.
func (p *program) shares(tag string) bool { return p.shared != "" && tag == p.shared }

var started = time.Now()

func (s *run) options(p *program, g *group) []doclock.Option {
	opts := []doclock.Option{
		doclock.Owner(fmt.Sprint("program ", p.number)), doclock.ClockTolerance(g.tolerance), engine.Option(func(cfg *engine.Config) error {
			cfg.TTL, cfg.WaitTTL = p.ttl(g), g.waitTTL // may be shorter than the options allow
			return nil
		}),
	}
	if p.upsert {
		opts = append(opts, doclock.Upsert())
	}
	if p.number%3 == 1 {
		opts = append(opts, doclock.PollInterval(doclock.MinPollInterval))
	}
	if slices.Contains(g.rules.Tags(), p.shared) {
		opts = append(opts, doclock.ShareInProcess(p.shared))
	}
	if !s.virtual() {
		opts = append(opts, doclock.AttemptTimeout(250*time.Millisecond), engine.Option(func(cfg *engine.Config) error {
			cfg.Clock = func() engine.Reading {
				now := time.Now()
				return engine.Reading{Mono: now.Sub(started), Wall: now.Round(0).Add(time.Duration(p.ahead.Load()))}
			}
			return nil
		}))
	}
	return append(opts, doclock.OnEvent(func(ctx context.Context, event doclock.Event) { s.hear(ctx, p, event) }))
}

// heard is an event as an observer got it.
type heard struct {
	doclock.Event
	program *program
	call    *call // whose value its context has, or nil
}

// hear is the observer of all Lockers: it remembers.
func (s *run) hear(ctx context.Context, p *program, event doclock.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &heard{Event: event, program: p}
	h.call, _ = ctx.Value(callKey{}).(*call)
	p.events = append(p.events, h)
	if ctx.Err() != nil {
		s.found = append(s.found, "the context of an event has ended")
	}
}

// thrown is what the simulation's own code panics with.
const thrown = "thrown by the simulation"

// monitor has the faults strike that wait for a program's commands.
func (s *run) monitor(p *program) *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			if e.DatabaseName != "admin" { // the driver's own, and the questions what kind of server it is
				c, _ := ctx.Value(callKey{}).(*call)
				p.pace.sends(c, e.Command)
				p.strike(0)
			}
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			p.pace.succeeds()
			if e.DatabaseName != "admin" {
				p.strike(1)
			}
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			if e.DatabaseName != "admin" {
				p.strike(1)
			}
		},
	}
}
