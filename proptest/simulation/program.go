package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/adjust"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// group is documents under the same rules. A program has one Locker for them.
type group struct {
	name      string
	rules     relations.Rules
	tags      []string
	documents []string
	ttl       time.Duration
	waitTTL   time.Duration
	tolerance time.Duration

	terms   bool     // acquires have terms of their own, and leases are detached and downgraded
	made    []string // those that an Upsert makes
	claims  bool     // an acquire may ask for any of the documents
	jobs    bool     // no acquire asks for one of them by its name
	deleted []string // those that are deleted, and come back
}

func newGroup(name string, rules relations.Rules, documents ...string) *group {
	return &group{name: name, rules: rules, tags: rules.Tags(), documents: documents}
}

// office is the group of the document for whose lock programs campaign.
func office(ttl, tolerance time.Duration) *group {
	g := newGroup("office", relations.Exclusive(), "office")
	g.ttl, g.waitTTL, g.tolerance, g.terms = ttl, ttl, tolerance, true
	return g
}

// histories are the documents as the history's checker needs them.
func (g *group) histories() (all []history.Document) {
	for _, name := range append(slices.Clone(g.documents), g.made...) {
		all = append(all, history.Document{
			ID: name, Name: g.name, Rules: history.Plain(g.rules),
			TTL: g.ttl.Milliseconds(), WaitTTL: g.waitTTL.Milliseconds(), Tolerance: g.tolerance.Milliseconds(),
			Terms: g.terms, Deleted: slices.Contains(g.deleted, name),
		})
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
	ears     []*ear       // of its Lockers
	events   []*heard     // in the order of their delivery by each Locker
}

// connect makes a program's Lockers.
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

// name is that of the collection.
func (p *program) name() string { return p.coll.Database().Name() + "." + p.coll.Name() }

// shares says that the lease may be one of several of an entry.
func (p *program) shares(tag string) bool { return p.shared != "" && tag == p.shared }

var started = time.Now()

// options are those of a program's Locker.
func (s *run) options(p *program, g *group) []doclock.Option {
	opts := []doclock.Option{
		doclock.Owner(fmt.Sprint("program ", p.number)), doclock.ClockTolerance(g.tolerance), adjust.Locker(func(cfg *engine.Config) {
			cfg.TTL, cfg.WaitTTL = p.ttl(g), g.waitTTL // may be shorter than the options allow
		}),
	}
	if p.upsert {
		opts = append(opts, doclock.Upsert())
	}
	if slices.Contains(g.tags, p.shared) {
		opts = append(opts, doclock.ShareInProcess(p.shared))
	}
	if s.net == nil {
		opts = append(opts, doclock.AttemptTimeout(250*time.Millisecond), adjust.Locker(func(cfg *engine.Config) {
			cfg.Clock = func() engine.Reading {
				now := time.Now()
				return engine.Reading{Mono: now.Sub(started), Wall: now.Round(0).Add(time.Duration(p.ahead.Load()))}
			}
		}))
	}
	return append(opts, s.observers(p)...)
}

// ear is what the observers of one Locker have.
type ear struct {
	*run
	*program
	fate    *rand.Rand
	heard   int // events
	burdens int // calls of the first observer, where there are two
	panics  int // of them
}

// observers are those of a Locker.
func (s *run) observers(p *program) (opts []doclock.Option) {
	e := &ear{run: s, program: p, fate: rand.New(rand.NewPCG(s.seed, uint64(2000+p.number)))}
	p.ears = append(p.ears, e)
	if s.slow || s.panicky {
		opts = append(opts, doclock.OnEvent(func(context.Context, doclock.Event) { e.burden() }))
	}
	return append(opts, doclock.OnEvent(e.hear))
}

// burden is an observer that is slow, or panics.
func (e *ear) burden() {
	e.burdens++
	if e.slow {
		time.Sleep(time.Duration(e.fate.IntN(30)) * time.Millisecond)
	}
	if e.panicky && e.fate.IntN(20) == 0 {
		e.panics++
		panic(thrown)
	}
}

// heard is an event as an observer got it.
type heard struct {
	doclock.Event
	program *program
	call    *call // whose value its context has, or nil
}

// hear is the observer that remembers.
func (e *ear) hear(ctx context.Context, event doclock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := &heard{Event: event, program: e.program}
	h.call, _ = ctx.Value(callKey{}).(*call)
	e.heard++
	e.events = append(e.events, h)
	if ctx.Err() != nil {
		e.found = append(e.found, "the context of an event has ended")
	}
}

// thrown is what the simulation's own code panics with.
const thrown = "thrown by the simulation"

// panics counts those that are logged. Only what a Locker writes into the log of
// the process is told.
type panics struct{ n atomic.Int64 }

func (p *panics) Write(text []byte) (int, error) {
	p.n.Add(int64(strings.Count(string(text), "panic in an observer of")))
	return len(text), nil
}
