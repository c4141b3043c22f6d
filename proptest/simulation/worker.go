package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// These begin a worker's line with the tally of its ledger, and one with a message of a
// client in another language.
const (
	tallied  = "tally "
	messaged = "message "
)

// callersPerProgram is how many callers of a process share a program: its Lockers and
// the clock of one machine. They wait in one wait queue for a document, and hand its
// lock to each other. Other programs of the process share nothing with them.
const callersPerProgram = 8

// programsPerProcess is more than a process has.
const programsPerProcess = 100

// work is one process of a run on a server.
func work(_ context.Context, j job) error {
	out := history.NewWriter(os.Stdout)
	shape := shape{seed: j.Seed + uint64(1000*(j.Process+1))}
	s := newRun(world{shape: shape, faulty: j.Faults, pace: j.Pace}, groupsOf(j.Seed, j.Documents, j.Pace), out)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var around sync.WaitGroup
	for n := range (j.CallersPerProcess + callersPerProgram - 1) / callersPerProgram {
		w, err := s.program(j, n)
		if err != nil {
			return err
		}
		if j.Faults {
			around.Go(func() { w.blow(ctx) })
		}
	}
	if err := s.oversee(j); err != nil {
		return err
	}
	around.Go(func() { s.operator.work(ctx, s.runner(901)) })

	s.drive(j.CallersPerProcess, func() bool { return s.begun() < j.Share })
	cancel()
	around.Wait()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, p := range s.programs {
		s.close(p)
	}
	counts, err := json.Marshal(s.judgeInTime())
	if err != nil {
		return err
	}
	fmt.Printf("%s%s\n", tallied, counts)
	return out.Err()
}

// program makes one, and the faults of its network.
func (s *run) program(j job, n int) (*weather, error) {
	p := &program{number: j.Process*programsPerProcess + n}
	p.recorder = history.NewRecorder(p.number, j.Database, s.clock, s.history)
	w := &weather{run: s, net: faultnet.New(), recorder: p.recorder, rng: rand.New(rand.NewPCG(s.seed, uint64(900-n)))}
	var err error
	if p.client, err = mongo.Connect(options.Client().ApplyURI(j.URI).SetDialer(w.net).SetMaxAdaptiveRetries(0).SetMonitor(together(s.monitor(p), p.recorder.Monitor()))); err != nil {
		return nil, err
	}
	if j.Faults && (j.Process+n)%2 == 1 {
		p.ahead.Store(int64(time.Duration(w.rng.IntN(20)-10) * time.Hour))
		s.fire(FaultWrongClock)
	}
	s.programs = append(s.programs, p)
	return w, s.connect(p, p.client.Database(j.Database).Collection(collection))
}

// oversee makes the operator of a process.
func (s *run) oversee(j job) error {
	o := &operator{run: s, number: j.Process*programsPerProcess + programsPerProcess - 1}
	o.recorder = history.NewRecorder(o.number, j.Database, s.clock, s.history)
	client, err := mongo.Connect(options.Client().ApplyURI(j.URI).SetMonitor(o.recorder.Monitor()))
	if err != nil {
		return err
	}
	o.coll, s.operator = client.Database(j.Database).Collection(collection), o
	return nil
}

// begun is how many calls have begun.
func (s *run) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// judgeInTime judges when each lease has its end: one that was left alone has it when its
// time is up, and the last events may be on their way.
func (s *run) judgeInTime() *tally.Tally {
	for end := time.Now().Add(patience / 4); ; time.Sleep(100 * time.Millisecond) {
		counts := &tally.Tally{}
		if s.judge(counts); len(counts.Violations) == 0 || time.Now().After(end) {
			return counts
		}
	}
}

// groupsOf draws the documents of a run on a server: n, each with rules and times of its
// own, those that are claimed, one that is deleted, and the leaders'. Every second one of
// the n has terms.
func groupsOf(seed uint64, n int, pace time.Duration) (groups []*group) {
	rng := rand.New(rand.NewPCG(seed, 0))
	sets := []struct {
		name  string
		rules relations.Rules
	}{
		{"Fair", relations.Fair()}, // of the document that is often asked for
		{"WritePreferring", relations.WritePreferring()},
		{"Exclusive", relations.Exclusive()},
		{"Semaphore(2)", relations.Semaphore(2)},
		{"MultiGranularity", relations.MultiGranularity()},
		{"ReadPreferring", relations.ReadPreferring()},
		{"Semaphore(1)", relations.Semaphore(1)},
	}
	ms := func(n int) time.Duration { return time.Duration(20*n) * time.Millisecond / pace }
	for i := range n {
		name, rules := fmt.Sprintf("generated %d", i), generated(rng)
		if i < len(sets) {
			name, rules = sets[i].name, sets[i].rules
		}
		g := newGroup(fmt.Sprintf("%d, %s", i, name), rules, fmt.Sprintf("d%d", i))
		g.ttl = ms(150 + 50*rng.IntN(8))
		g.waitTTL = max(ms(100), g.ttl/2+ms(rng.IntN(200)))
		g.tolerance = ms([]int{0, 20, 100}[rng.IntN(3)])
		g.terms = i%2 == 0
		groups = append(groups, g)
	}
	groups[0].made = []string{missing}
	jobs := newGroup("claimed", relations.Exclusive(), "job0", "job1", "job2")
	jobs.claims, jobs.jobs = true, true
	gone := newGroup("deleted", relations.WritePreferring(), "gone")
	gone.deleted, gone.terms = gone.documents, true
	for _, g := range []*group{jobs, gone} {
		g.ttl, g.waitTTL, g.tolerance = ms(300), ms(300), ms(20)
	}
	return append(groups, jobs, gone, office(ms(300), ms(20)))
}

// generated draws rules of two or three tags, with any relations.
func generated(rng *rand.Rand) relations.Rules {
	tags := []string{"a", "b", "c"}[:2+rng.IntN(2)]
	rules := relations.Rules{}
	for _, x := range tags {
		rules[x] = map[string]relations.Relation{}
		for _, y := range tags {
			kind := []relations.Kind{relations.None, relations.Cooperative, relations.Assertive}[rng.IntN(3)]
			if kind != relations.None {
				rules[x][y] = relations.Relation{Kind: kind, Allow: max(0, rng.IntN(4)-1)}
			}
		}
	}
	return rules
}
