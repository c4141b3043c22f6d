package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
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

// Main makes this process a worker if it was started as one, and then does not return.
func Main() { child.Main(workers, work) }

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
	l := &launch{ServerConfig: cfg, database: client.Database("simulation_" + strings.ReplaceAll(uuid.NewString(), "-", "")), pace: 20}
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

	mu     sync.Mutex
	output []*bytes.Buffer
}

// processes starts the workers and waits for them.
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

// worker is a process, with what it has said of itself. Its history is in the output.
type worker struct {
	*child.Process
	calls   int // that have returned
	failure string
}

func (l *launch) start(ctx context.Context, i, share int) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := job{l.ServerConfig, l.database.Name(), len(l.output), l.pace, share, l.documents()}
	out, w := &bytes.Buffer{}, &worker{}
	recorder := history.NewRecorder(j.Process*programsPerProcess, j.Database, history.Clock{}, history.NewWriter(out))
	l.output = append(l.output, out)
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
			fmt.Fprintln(out, line)
			if strings.Contains(line, `"outcome":`) && !strings.Contains(line, `"kind":"look"`) {
				w.calls++
			}
		default:
			w.failure = line
		}
	})
	return w, err
}

// documents are those that are locked, without their logs.
func (l *launch) documents() (all []history.Document) {
	for _, g := range l.groups {
		all = append(all, g.histories()...)
	}
	return all
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
	all := &history.History{}
	for _, out := range l.output {
		h, err := history.Decode(out)
		if err != nil {
			return nil, err
		}
		all.Merge(h)
	}
	for _, d := range l.documents() {
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
