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

// Run runs the seeds, and counts the checks and what was seen.
func Run(t *testing.T, c Config, counts *tally.Tally) {
	for seed := c.First; seed < c.First+uint64(c.Seeds) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			s, err := newInMemory(t, shapeOf(seed))
			if err != nil {
				t.Fatal(err)
			}
			s.inVirtualTime(c.Long, func() {})
			s.judge(counts)
			s.checkPace(counts)
			s.checkHistory(counts)
		})
	}
}

// shape is what the seed chooses.
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

// newInMemory makes the server, the documents and the programs.
func newInMemory(t testing.TB, of shape) (*run, error) {
	return newVirtual(world{shape: of, mem: locktest.New(t), faulty: !of.calm, pace: 1})
}

// newVirtual makes the documents and the programs.
func newVirtual(w world) (*run, error) {
	orders := newGroup(fmt.Sprintf("seed %d", w.seed), w.rules, "a", "b", "c", "d")
	orders.ttl, orders.waitTTL, orders.tolerance = longestTTL, 2*time.Second, tolerance
	orders.terms, orders.claims, orders.deleted, orders.made = true, true, []string{"c", "d"}, []string{fresh}
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
		return nil, err
	}
	for n := range 2 {
		p, err := s.newProgram(n)
		if err != nil {
			return nil, err
		}
		s.programs = append(s.programs, p)
	}
	return s, nil
}

// newProgram makes a program. Those with odd numbers share a tag.
func (s *run) newProgram(n int) (p *program, err error) {
	p = &program{number: n, own: []time.Duration{4 * time.Second, 6 * time.Second}[n%2], upsert: n == 0 && s.upsert}
	for _, tag := range s.groups[0].tags {
		if n%2 == 1 && p.shared == "" && s.rules.CheckShareable(tag) == nil {
			p.shared = tag
		}
	}
	p.recorder = history.NewRecorder(n, "test", s.clock, s.history)
	p.client = s.mem.Connect(options.Client().SetMonitor(together(s.monitor(p), p.recorder.Monitor())))
	return p, s.connect(p, p.client.Database("test").Collection("orders"))
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

// checkHistory checks the history of a run in memory.
func (s *run) checkHistory(counts *tally.Tally) {
	h := s.history.History()
	h.Apart = int64(s.apart)
	for fault, n := range h.Faults {
		counts.Fired(fault, n)
	}
	for _, g := range s.groups {
		h.Documents = append(h.Documents, g.histories()...)
	}
	for i, d := range h.Documents {
		h.Documents[i].Log = s.operator.log(d.ID)
	}
	h.CheckSafety(counts)
}
