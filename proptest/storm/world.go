package storm

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// longestTTL is the longest one of a run.
const longestTTL = 10 * time.Second

// documents are the names of a run's documents.
var documents = []string{"a", "b", "c", "d"}

// storm is one run.
type storm struct {
	shape
	mem      *locktest.Server
	apart    *mongo.Collection // by a client without a monitor
	programs []*program
	panics   *panics

	mu       sync.Mutex // of all that follows, and of what it points to
	ticks    int
	calls    []*call
	acquires []*acquire
	holdings []*holding
	commands []*command
	tokens   []string
	tickets  map[string]bool // the ids of those that were left alone
	unsure   []span          // in which a command may not have reached the server
	late     map[string]bool // the ids of requests that may arrive after their caller has left
	over     bool            // no fault comes any more
	found    []string
	leftover []admin.Entry
	fired    map[string]int
}

// program is one Locker with its own client.
type program struct {
	number  int
	locker  *multilock.Locker
	ttl     time.Duration
	upsert  bool
	shared  string    // the tag whose holders share an entry, or ""
	closed  time.Time // when its Close began, or zero
	events  []*heard  // in the order of their delivery
	burdens int       // calls of its first observer, where it has two
	panics  int       // of them
	logged  []record  // what its log has
}

// shape is what the seed chooses.
type shape struct {
	seed                                uint64
	rules                               relations.Rules
	tags                                []string
	calm, slow, panicky, upsert, closes bool
}

// span is a time from one instant to another.
type span struct{ from, to time.Time }

func shapeOf(seed uint64) shape {
	presets := []relations.Rules{
		relations.Exclusive(), relations.Fair(), relations.WritePreferring(), relations.Semaphore(2), relations.ReadPreferring(), relations.MultiGranularity(),
	}
	s := shape{
		seed: seed, rules: presets[seed%6],
		calm: seed%4 == 0, slow: seed%4 == 1, panicky: seed%4 == 2, upsert: seed%5 == 3, closes: seed%3 == 1,
	}
	s.tags = s.rules.Tags()
	return s
}

// newStorm makes the server, the documents and the programs.
func newStorm(seed uint64) (*storm, error) {
	s := &storm{shape: shapeOf(seed), mem: locktest.New(), tickets: map[string]bool{}, late: map[string]bool{}, fired: map[string]int{}}
	var all []any
	for _, name := range documents {
		all = append(all, bson.M{"_id": name, "state": "open"})
	}
	var err error
	if s.apart, err = s.mem.Collection("orders", all...); err != nil {
		return nil, err
	}
	for n := range 2 {
		p := &program{number: n, ttl: []time.Duration{4 * time.Second, 6 * time.Second}[n], upsert: n == 0 && s.upsert}
		client, err := s.mem.Connect(options.Client().SetRetryReads(false).SetMonitor(s.monitor(p)))
		if err != nil {
			return nil, err
		}
		opts := []doclock.Option{doclock.TTL(p.ttl), doclock.WaitTTL(2 * time.Second), doclock.Owner(fmt.Sprint("program ", n))}
		if p.upsert {
			opts = append(opts, doclock.Upsert())
		}
		if n == 1 {
			i := slices.IndexFunc(s.tags, func(tag string) bool { return s.rules.CheckShareable(tag) == nil })
			if i >= 0 {
				p.shared = s.tags[i]
				opts = append(opts, doclock.ShareInProcess(p.shared))
			}
		}
		fate := rand.New(rand.NewPCG(seed, uint64(2000+n)))
		if s.slow || s.panicky {
			opts = append(opts, doclock.OnEvent(func(context.Context, doclock.Event) { s.burden(p, fate) }))
		}
		opts = append(opts, doclock.OnEvent(func(ctx context.Context, e doclock.Event) { s.hear(p, ctx, e) }), doclock.LogTo(slog.New(logbook{p})))
		if p.locker, err = multilock.New(client.Database("test").Collection("orders"), s.rules, opts...); err != nil {
			return nil, err
		}
		s.programs = append(s.programs, p)
	}
	return s, nil
}

// burden is an observer that is slow, or panics.
func (s *storm) burden(p *program, fate *rand.Rand) {
	p.burdens++
	if s.slow {
		time.Sleep(time.Duration(fate.IntN(30)) * time.Millisecond)
	}
	if s.panicky && fate.IntN(20) == 0 {
		p.panics++
		panic(thrown)
	}
}

// thrown is what the storm's own code panics with.
const thrown = "thrown by the storm"

// panics counts those that are logged.
type panics struct {
	mu sync.Mutex
	n  int
}

func (p *panics) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += strings.Count(string(text), "panic in an observer of")
	return len(text), nil
}

// tick is the number of the next thing that happens. The storm is locked.
func (s *storm) tick() int {
	s.ticks++
	return s.ticks
}

// entries are those in the documents.
func (s *storm) entries() (all []admin.Entry) {
	for e, err := range admin.Entries(context.Background(), s.apart, admin.Query{}) {
		if err != nil {
			s.fault("the entries can't be read: %v", err)
			return nil
		}
		all = append(all, e)
	}
	return all
}
