package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file has the world of a real server, in real time, with several processes.

// ServerConfig is the size of a run on a server.
type ServerConfig struct {
	URI               string
	Processes         int
	CallersPerProcess int
	Operations        int // calls at least, of all callers together
	Documents         int // each with rules of its own: the presets, then generated ones
	Seed              uint64
	Faults            bool

	// Restart kills the server and starts it again, every few seconds. All goes slower then,
	// so that leases outlive it. nil: the server is not killed.
	Restart func() `json:"-"`

	// Other is a program that every second process runs: a client in another language. "" is
	// none.
	Other string `json:"-"`
}

// Faults of the server, of processes, machines and callers.
const (
	FaultRestarted   = "server killed (SIGKILL) and restarted" // only with Restart
	FaultStopped     = "holder stopped (SIGSTOP) past its lease"
	FaultKilled      = "holder killed (SIGKILL)"
	FaultWrongClock  = "client with a wrong wall clock"
	FaultJumpedClock = "client's wall clock jumps"
	FaultCancelled   = "context ended during a command"
	FaultCrashed     = "holder vanished without a release"
	FaultPaused      = "holder paused past its lease"
)

// ServerFaults are all faults of such a run, if the server is not killed.
var ServerFaults = []string{
	FaultRequestLost, FaultReplyLost, FaultCut, FaultHeld, FaultStalled, FaultReplyDelayed, FaultRepeated, FaultWriteConcern, FaultOverload, FaultLatency,
	FaultStopped, FaultKilled, FaultWrongClock, FaultJumpedClock, FaultCancelled, FaultCrashed, FaultPaused,
}

const (
	workers    = "simulation" // the name of the child processes
	collection = "documents"
	patience   = 2 * time.Minute // for a worker's last steps
)

// Main makes this process a worker if it was started as one, and then does not return. It
// drops the log, which has the stacks of the panics that are drawn.
func Main() {
	log.SetOutput(io.Discard)
	child.Main(workers, work)
}

// job is a worker's task.
type job struct {
	ServerConfig
	Database string
	Process  int
	Pace     time.Duration
	Share    int                // of the operations
	Locked   []history.Document // for a client in another language, which can't draw them from the seed
}

// RunServer runs on a server. It returns the history, which is not checked yet, and the
// tally of the faults and of the ledgers.
func RunServer(ctx context.Context, cfg ServerConfig) (*history.History, *tally.Tally, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(cfg.URI))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	l := &launch{ServerConfig: cfg, database: client.Database("simulation_" + strings.ReplaceAll(uuid.NewString(), "-", "")), pace: 20, history: history.Keep()}
	if cfg.Restart != nil {
		l.pace = 2
	}
	l.groups = groupsOf(cfg.Seed, cfg.Documents, l.pace)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = l.database.Drop(ctx)
	}()
	for _, g := range l.groups {
		for _, name := range g.documents {
			if _, err := l.database.Collection(collection).InsertOne(ctx, bson.M{"_id": name, "log": bson.A{}, "group": g.name}); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := l.processes(ctx); err != nil {
		return nil, nil, err
	}
	h, err := l.collect(ctx)
	if err != nil {
		return nil, nil, err
	}
	for fault, n := range h.Faults {
		l.counts.Fired(fault, n)
	}
	return h, &l.counts, nil
}

// launch is a RunServer in progress.
type launch struct {
	ServerConfig
	database *mongo.Database
	groups   []*group
	pace     time.Duration // see world
	counts   tally.Tally
	history  *history.Writer // of all workers
	started  atomic.Int64    // how many
}

func (l *launch) processes(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range l.Processes {
		rng := rand.New(rand.NewPCG(l.Seed, uint64(100+i)))
		all.Go(func() {
			const mostKills = 12
			kills := mostKills
			if i == 0 {
				kills = 0 // so that its ledger is judged
			}
			if err := l.keepBusy(ctx, i, max(1, l.Operations/l.Processes), kills, rng); err != nil {
				cancel(err)
			}
		})
	}
	over, stop := context.WithCancel(ctx)
	defer stop()
	var restarts sync.WaitGroup
	if l.Restart != nil {
		restarts.Go(func() {
			for sleep(over, 3*time.Second) {
				l.Restart()
				l.counts.Fired(FaultRestarted, 1)
			}
		})
	}
	all.Wait()
	stop()
	restarts.Wait()
	return context.Cause(ctx)
}

// keepBusy runs the i-th worker to its end. With faults it is stopped or killed now and then;
// another one takes a killed worker's place, and does the rest.
func (l *launch) keepBusy(ctx context.Context, i, share, mostKills int, rng *rand.Rand) error {
	for kills := 0; ; kills++ {
		w, err := l.start(ctx, i, share)
		if err != nil {
			return err
		}
		if killed := l.torment(ctx, w, kills < mostKills, rng); !killed {
			if err := w.End(); err != nil {
				return fmt.Errorf("a worker: %w: %s", err, w.failure)
			}
			return nil
		}
		_ = w.End()
		l.counts.Fired(FaultKilled, 1)
		share = max(1, share-w.calls)
	}
}

// worker is a process, with what it has said of itself.
type worker struct {
	*child.Process
	calls   int // that have returned
	failure string
}

func (l *launch) start(ctx context.Context, i, share int) (*worker, error) {
	j, w := job{l.ServerConfig, l.database.Name(), int(l.started.Add(1)) - 1, l.pace, share, documentsOf(l.groups)}, &worker{}
	recorder := history.NewRecorder(j.Process*programsPerProcess, j.Database, history.Clock{}, l.history)
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if l.Other != "" && i%2 == 1 {
		program = l.Other
	}
	w.Process, err = child.StartProgram(ctx, program, workers, j, func(_ *child.Process, line string) {
		judged, isTally := strings.CutPrefix(line, tallied)
		message, isMessage := strings.CutPrefix(line, messaged)
		switch {
		case isTally:
			var counts tally.Tally
			if err := json.Unmarshal([]byte(judged), &counts); err != nil {
				w.failure = err.Error()
			}
			l.counts.Merge(&counts)
		case isMessage:
			var m history.Message
			if err := json.Unmarshal([]byte(message), &m); err != nil {
				w.failure = err.Error() // a killed process may have left half of it
				return
			}
			recorder.Message(m)
		case strings.HasPrefix(line, "{"):
			if err := l.history.Line(line); err != nil {
				w.failure = err.Error() // as above
				return
			}
			if strings.Contains(line, `"outcome":`) && !strings.Contains(line, `"kind":"look"`) {
				w.calls++
			}
		default:
			w.failure = line
		}
	})
	return w, err
}

// torment stops a worker now and then, and may kill it.
func (l *launch) torment(ctx context.Context, w *worker, kill bool, rng *rand.Rand) (killed bool) {
	if !l.Faults {
		<-w.Done()
		return false
	}
	doom := time.After(time.Duration(3000+rng.IntN(3000)) * time.Millisecond)
	if !kill {
		doom = nil
	}
	for {
		select {
		case <-w.Done():
			return false
		case <-doom:
			w.Kill()
			<-w.Done()
			return true
		case <-time.After(time.Duration(1000+rng.IntN(2000)) * time.Millisecond):
			w.Stop()
			sleep(ctx, time.Duration(300+rng.IntN(700))*time.Millisecond)
			w.Continue()
			l.counts.Fired(FaultStopped, 1)
		}
	}
}

// collect puts the workers' histories and the documents' logs together.
func (l *launch) collect(ctx context.Context) (*history.History, error) {
	all := l.history.History()
	for _, d := range documentsOf(l.groups) {
		var found struct{ Log []string }
		err := l.database.Collection(collection).FindOne(ctx, bson.M{"_id": d.ID}).Decode(&found)
		if err != nil && !d.Deleted && d.ID != missing {
			return nil, fmt.Errorf("read the log of %s: %w", d.ID, err)
		}
		d.Log = found.Log
		all.Documents = append(all.Documents, d)
	}
	if len(l.counts.Violations) > 0 { // of the ledgers, which don't show what was sent
		l.counts.Details = append(l.counts.Details, "the history: "+all.Keep())
	}
	return all, nil
}

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
		ttl := ms(150 + 50*rng.IntN(8))
		groups = append(groups, &group{
			name: fmt.Sprintf("%d, %s", i, name), rules: rules, documents: []string{fmt.Sprintf("d%d", i)},
			ttl: ttl, waitTTL: max(ms(100), ttl/2+ms(rng.IntN(200))), tolerance: ms([]int{0, 20, 100}[rng.IntN(3)]), terms: i%2 == 0,
		})
	}
	groups[0].made = []string{missing}
	ttl, tolerance := ms(300), ms(20)
	jobs := &group{
		name: "claimed", rules: relations.Exclusive(), documents: []string{"job0", "job1", "job2"}, ttl: ttl, waitTTL: ttl, tolerance: tolerance, claims: true, jobs: true,
	}
	gone := &group{
		name: "deleted", rules: relations.WritePreferring(), documents: []string{"gone"}, ttl: ttl, waitTTL: ttl, tolerance: tolerance, deleted: []string{"gone"}, terms: true,
	}
	return append(groups, jobs, gone, office(ttl, tolerance))
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

// Faults of the network of a real server.
const (
	FaultCut          = "connection reset in the middle of a request"
	FaultHeld         = "connection broken, request executed late"
	FaultStalled      = "blackhole"
	FaultReplyDelayed = "reply delayed"
	FaultRepeated     = "duplicate of a command executed late"
	FaultWriteConcern = "write-concern error"
	FaultOverload     = "refused because of overload"
	FaultLatency      = "spell of latency"
)

// weather arms one fault of a program's network after the other until ctx ends.
type weather struct {
	*run
	net      *faultnet.Net
	recorder *history.Recorder
	rng      *rand.Rand
	late     sync.WaitGroup
}

func (w *weather) blow(ctx context.Context) {
	hold := func(least, random int) time.Duration {
		return time.Duration(least+w.rng.IntN(random)) * time.Millisecond
	}
	for sleep(ctx, hold(20, 80)) {
		switch w.rng.IntN(10) {
		case 0:
			w.await(ctx, FaultRequestLost, w.net.ArmWhere(faultnet.LoseRequest, ofProtocol), 0)
		case 1:
			w.await(ctx, FaultReplyLost, w.net.ArmWhere(faultnet.LoseReply, ofProtocol), 0)
		case 2:
			w.await(ctx, FaultHeld, w.net.ArmWhere(faultnet.Hold, w.ghost), hold(20, 800))
		case 3:
			w.await(ctx, FaultStalled, w.net.ArmWhere(faultnet.Stall, ofProtocol), 0)
		case 4:
			w.await(ctx, FaultReplyDelayed, w.net.ArmWhere(faultnet.DelayReply, ofProtocol), hold(10, 300))
		case 5:
			w.await(ctx, FaultRepeated, w.net.ArmWhere(faultnet.Repeat, w.ghost), hold(20, 800))
		case 6:
			w.await(ctx, FaultWriteConcern, w.net.ArmRewrite(faultnet.Rewrite, "findAndModify", withWriteConcernError), 0)
		case 7:
			w.await(ctx, FaultOverload, w.net.ArmRewrite(faultnet.Refuse, "findAndModify", overloaded), 0)
		case 8:
			w.net.Delay(hold(5, 40))
			sleep(ctx, 100*time.Millisecond)
			w.net.Delay(0)
			w.fire(FaultLatency)
		case 9:
			w.await(ctx, FaultCut, w.net.ArmWhere(faultnet.Cut, ofProtocol), 0)
		}
	}
	w.net.Disarm()
	w.late.Wait()
}

// ofProtocol matches the commands that change locks, including batched
// renewals.
func ofProtocol(name string, _ bson.Raw) bool { return name == "findAndModify" || name == "update" }

// ghost matches a command that the server will get without the driver.
func (w *weather) ghost(name string, body bson.Raw) bool {
	if name != "findAndModify" {
		return false
	}
	w.recorder.Ghost(body)
	return true
}

// await waits until the fault has fired, and later releases a message that it
// holds.
func (w *weather) await(ctx context.Context, name string, f *faultnet.Fault, hold time.Duration) {
	select {
	case <-f.Fired():
	case <-ctx.Done():
		w.net.Disarm()
		select {
		case <-f.Fired(): // a fault that waits for its reply
		case <-time.After(500 * time.Millisecond):
			return
		}
	}
	w.fire(name)
	if hold > 0 {
		w.late.Go(func() {
			time.Sleep(hold)
			_ = f.Let() // if its connection fails, the command was never sent
		})
	}
}

func withWriteConcernError(reply bson.Raw) any {
	var document bson.D
	if err := bson.Unmarshal(reply, &document); err != nil {
		return reply
	}
	return append(document, bson.E{Key: "writeConcernError", Value: bson.M{"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "injected: waiting for replication timed out"}})
}

func overloaded(bson.Raw) any {
	return bson.M{
		"ok": 0, "code": 462, "codeName": "IngressRequestRateLimitExceeded", "errmsg": "injected: too many requests",
		"errorLabels": bson.A{"SystemOverloadedError", "RetryableError"},
	}
}
