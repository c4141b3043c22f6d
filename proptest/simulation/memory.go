package simulation

import (
	"context"
	"fmt"
	"log"
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

// longestTTL is the longest one of a run in memory.
const longestTTL = 10 * time.Second

// Config is the size of a run in memory.
type Config struct {
	First uint64        // the first seed
	Seeds int           // how many
	Long  time.Duration // of each run, in virtual time
}

// Run runs the seeds, and counts the checks and what was seen.
func Run(t *testing.T, c Config, counts *tally.Tally) {
	for seed := c.First; seed < c.First+uint64(c.Seeds); seed++ {
		panics := &panics{}
		was := log.Writer()
		log.SetOutput(panics)
		synctest.Test(t, func(t *testing.T) {
			s, err := newInMemory(shapeOf(seed))
			if err != nil {
				t.Fatal(err)
			}
			s.panics = panics
			s.inVirtualTime(c.Long)
			s.judge(counts)
			s.checkHistory(counts)
		})
		log.SetOutput(was)
		if t.Failed() {
			return
		}
	}
}

// shape is what the seed chooses.
type shape struct {
	seed                                      uint64
	rules                                     relations.Rules
	calm, slow, panicky, upsert, closes, fits bool
}

func shapeOf(seed uint64) shape {
	presets := []relations.Rules{
		relations.Exclusive(), relations.Fair(), relations.WritePreferring(), relations.Semaphore(2), relations.ReadPreferring(), relations.MultiGranularity(),
	}
	return shape{
		seed: seed, rules: presets[seed%6],
		calm: seed%4 == 0, slow: seed%4 == 1, panicky: seed%4 == 2, upsert: seed%5 == 3, closes: seed%3 == 1, fits: seed%3 != 2,
	}
}

// newInMemory makes the server, the documents and the programs.
func newInMemory(of shape) (*run, error) {
	orders := newGroup(fmt.Sprintf("seed %d", of.seed), of.rules, "a", "b", "c", "d")
	orders.ttl, orders.waitTTL, orders.tolerance = longestTTL, 2*time.Second, 500*time.Millisecond
	orders.terms, orders.claims, orders.deleted, orders.made = true, true, []string{"c", "d"}, []string{fresh}
	groups := []*group{orders, office(longestTTL, 500*time.Millisecond)}
	s := newRun(world{shape: of, mem: locktest.New(), faulty: !of.calm, pace: 1}, groups, history.Keep())
	var all []any
	for _, g := range groups {
		for _, name := range g.documents {
			all = append(all, bson.M{"_id": name, "group": g.name})
		}
	}
	if !of.fits {
		all = append(all, bson.M{"_id": full, "group": orders.name, "text": strings.Repeat("x", 16<<20-120)})
	}
	if _, err := s.mem.Collection("orders", all...); err != nil {
		return nil, err
	}
	for n := range 2 {
		p := &program{number: n, own: []time.Duration{4 * time.Second, 6 * time.Second}[n], upsert: n == 0 && s.upsert}
		for _, tag := range orders.tags {
			if n == 1 && p.shared == "" && s.rules.CheckShareable(tag) == nil {
				p.shared = tag
			}
		}
		p.recorder = history.NewRecorder(n, "test", s.clock, s.history)
		client, err := s.mem.Connect(options.Client().SetRetryReads(false).SetMonitor(together(s.monitor(p), p.recorder.Monitor())))
		if err != nil {
			return nil, err
		}
		p.client = client
		if err := s.connect(p, client.Database("test").Collection("orders")); err != nil {
			return nil, err
		}
	}
	recorder := history.NewRecorder(len(s.programs), "test", s.clock, s.history)
	client, err := s.mem.Connect(options.Client().SetMonitor(recorder.Monitor()))
	if err != nil {
		return nil, err
	}
	s.operator = &operator{run: s, number: len(s.programs), recorder: recorder, coll: client.Database("test").Collection("orders")}
	return s, nil
}

// inVirtualTime drives for a time, and then lets all come to its end.
func (s *run) inVirtualTime(long time.Duration) {
	over, stop := context.WithTimeout(context.Background(), long)
	defer stop()
	var driving, others sync.WaitGroup
	driving.Go(func() { s.drive(callers, func() bool { return over.Err() == nil }) })
	others.Go(func() { s.operator.work(over, s.runner(callers)) })
	if s.faulty {
		others.Go(func() { s.runner(callers + 1).faults(over) })
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
	for _, p := range s.programs {
		s.close(p)
	}
	s.peace() // a fault that was meant for one call may be left
	s.leftover = s.operator.entries()
	time.Sleep(2 * longestTTL) // the leases that were left alone end, and the events are delivered
	synctest.Wait()
}

// checkHistory checks the history of a run in memory.
func (s *run) checkHistory(counts *tally.Tally) {
	h := s.history.History()
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
