package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file has the world of a server in memory and of virtual time.

// callers is how many goroutines drive a run in memory.
const callers = 8

// The times of a run in memory.
const (
	longestTTL = 10 * time.Second
	tolerance  = 500 * time.Millisecond
)

// Config is the size of a run in memory.
type Config struct {
	First uint64        // the first seed
	Seeds int           // how many
	Long  time.Duration // of each run, in virtual time
}

// each has a bubble for each of the seeds.
func (c Config) each(t *testing.T, run func(t *testing.T, seed uint64)) {
	for seed := c.First; seed < c.First+uint64(c.Seeds) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { run(t, seed) })
	}
}

// Run runs the seeds, and counts the checks and what was seen.
func Run(t *testing.T, c Config, counts *tally.Tally) {
	c.each(t, func(t *testing.T, seed uint64) {
		of := shapeOf(seed)
		s := newInMemory(world{shape: of, mem: locktest.New(t), faulty: !of.calm, pace: 1})
		s.inVirtualTime(c.Long, func() {})
		s.judge(counts)
		s.checkCommands(counts)
	})
}

type shape struct {
	seed                       uint64
	rules                      relations.Rules
	calm, upsert, closes, fits bool
}

func shapeOf(seed uint64) shape {
	presets := []relations.Rules{
		relations.Exclusive(), relations.Fair(), relations.WritePreferring(), relations.Semaphore(2), relations.ReadPreferring(), relations.MultiGranularity(),
	}
	return shape{
		seed: seed, rules: presets[seed%6],
		calm: seed%5 == 0, upsert: seed%5 == 3, closes: seed%3 > 0, fits: seed%3 != 2,
	}
}

func newInMemory(w world) *run {
	orders := &group{
		name: fmt.Sprintf("seed %d", w.seed), rules: w.rules, documents: []string{"a", "b", "c", "d"}, ttl: longestTTL, waitTTL: 2 * time.Second, tolerance: tolerance,
		terms: true, claims: true, deleted: []string{"c", "d"}, made: []string{fresh},
	}
	s := newRun(w, []*group{orders, office(longestTTL, tolerance)}, history.Keep())
	var all []any
	for _, g := range s.groups {
		for _, name := range g.documents {
			all = append(all, bson.M{"_id": name, "group": g.name})
		}
	}
	if !w.fits {
		all = append(all, bson.M{"_id": full, "group": orders.name, "text": strings.Repeat("x", 16<<20-120)})
	}
	for i, lock := range foreign {
		all = append(all, bson.M{"_id": []string{"!", "~"}[i%2] + fmt.Sprint(i), "group": orders.name, "lock": lock})
	}
	s.operator = &operator{run: s, number: programsPerProcess - 1}
	s.operator.recorder = history.NewRecorder(s.operator.number, "test", s.clock, s.history)
	client := s.mem.Connect(options.Client().SetMonitor(s.operator.recorder.Monitor()).SetRetryReads(false)) // the driver's loop has no pause
	s.operator.coll = client.Database("test").Collection("orders")
	if _, err := s.operator.coll.InsertMany(context.Background(), all); err != nil {
		panic(err)
	}
	for n := range 2 {
		s.programs = append(s.programs, s.newProgram(n))
	}
	return s
}

// newProgram makes a program. Those with odd numbers share a tag.
func (s *run) newProgram(n int) *program {
	p := &program{number: n, own: []time.Duration{4 * time.Second, 6 * time.Second}[n%2], upsert: n == 0 && s.upsert}
	for _, tag := range s.rules.Tags() {
		if n%2 == 1 && p.shared == "" && s.rules.CheckShareable(tag) == nil {
			p.shared = tag
		}
	}
	p.recorder = history.NewRecorder(n, "test", s.clock, s.history)
	p.client = s.mem.Connect(options.Client().SetMonitor(together(s.monitor(p), p.recorder.Monitor())))
	if err := s.connect(p, p.client.Database("test").Collection("orders")); err != nil {
		panic(err)
	}
	return p
}

// inVirtualTime drives for a time, and then lets all come to its end. calm is called
// when the last call has returned, before the Lockers are closed.
func (s *run) inVirtualTime(long time.Duration, calm func(), faults ...func(context.Context)) {
	over, stop := context.WithTimeout(context.Background(), long)
	defer stop()
	var driving, others sync.WaitGroup
	driving.Go(func() { s.drive(callers, func() bool { return over.Err() == nil }) })
	others.Go(func() { s.operator.work(over, s.runner(callers)) })
	if s.faulty {
		faults = append(faults, s.runner(callers+1).faults)
	}
	for _, f := range faults {
		others.Go(func() { f(over) })
	}
	if s.closes {
		others.Go(func() {
			time.Sleep(long / 2)
			s.close(s.programs[1])
		})
	}
	others.Wait()
	s.peace()
	driving.Wait()
	calm()
	for _, p := range s.programs {
		s.close(p)
	}
	s.peace()                  // a fault that was meant for one call may be left
	time.Sleep(2 * longestTTL) // the leases that were left alone end, and the events are delivered
	synctest.Wait()
}

// checkCommands checks the history of a run in memory, and how fast its programs have sent commands.
func (s *run) checkCommands(counts *tally.Tally) {
	s.checkPace(counts)
	h := s.recorded()
	for fault, n := range h.Faults {
		counts.Fired(fault, n)
	}
	h.CheckSafety(counts)
}

func (s *run) recorded() *history.History {
	h := s.history.History()
	h.Apart = int64(s.apart)
	for _, d := range documentsOf(s.groups) {
		d.Log = s.operator.log(d.ID)
		h.Documents = append(h.Documents, d)
	}
	return h
}
