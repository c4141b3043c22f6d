package hammer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Config is the size of a run.
type Config struct {
	URI               string // of the server
	Processes         int
	ClientsPerProcess int
	Operations        int // at least, of all clients together
	Documents         int // each with rules of its own: the presets, then generated ones
	Seed              uint64
	Faults            bool
	Progress          io.Writer // nil: none
}

// Faults of whole processes. network.go names those of the network.
const (
	FaultStopped     = "holder stopped (SIGSTOP) past its lease"
	FaultKilled      = "holder killed (SIGKILL)"
	FaultWrongClock  = "client with a wrong wall clock"
	FaultJumpedClock = "client's wall clock jumps"
	FaultCancelled   = "context ended during a command"
	FaultCrashed     = "holder vanished without a release"
	FaultPaused      = "holder paused past its lease"
)

const (
	environment = "DOCLOCK_HAMMER"
	collection  = "documents"
	patience    = 10 * time.Second // for a worker's last steps
)

// order is a worker's task.
type order struct {
	URI        string
	Database   string
	Process    int
	Clients    int
	Operations int // of each client
	Documents  []history.Document
	Seed       uint64
	Faults     bool
}

// Main makes this process a worker if its environment says so, and then does
// not return.
func Main() {
	text := os.Getenv(environment)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = work(o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hammer: worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run hammers, and returns the history with the tally of faults. The history is
// not checked yet.
func Run(ctx context.Context, cfg Config) (*history.History, *tally.Tally, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(cfg.URI))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	r := &run{
		Config:    cfg,
		database:  client.Database("hammer_" + strings.ReplaceAll(uuid.NewString(), "-", "")),
		documents: documents(cfg.Documents, rand.New(rand.NewPCG(cfg.Seed, 0))),
		rng:       rand.New(rand.NewPCG(cfg.Seed, 1)),
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = r.database.Drop(ctx)
	}()
	for _, d := range r.documents {
		if d.ID == nowhere {
			continue
		}
		if _, err := r.database.Collection(collection).InsertOne(ctx, bson.M{"_id": d.ID, "log": bson.A{}, "name": d.Name}); err != nil {
			return nil, nil, err
		}
	}
	if err := r.processes(ctx); err != nil {
		return nil, nil, err
	}
	h, err := r.collect(ctx)
	if err != nil {
		return nil, nil, err
	}
	t := &tally.Tally{}
	for fault, n := range h.Faults {
		t.Fired(fault, n)
	}
	return h, t, nil
}

// run is a Run in progress.
type run struct {
	Config
	database  *mongo.Database
	documents []history.Document
	rng       *rand.Rand
	lines     atomic.Int64

	mu      sync.Mutex
	started int
	output  []*recording
	faults  map[string]int
}

// recording is a worker's output. Its last line may be cut off.
type recording struct {
	text  bytes.Buffer
	lines *atomic.Int64
	calls int // the approximate number of calls that have returned
}

func (r *recording) Write(p []byte) (int, error) {
	r.lines.Add(int64(bytes.Count(p, []byte{'\n'})))
	r.calls += bytes.Count(p, []byte(`"outcome":`)) - bytes.Count(p, []byte(`"kind":"look"`))
	return r.text.Write(p)
}

// processes starts the workers and waits for them.
func (r *run) processes(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	share := max(1, r.Operations/(r.Processes*r.ClientsPerProcess))
	var all sync.WaitGroup
	errs := make(chan error, r.Processes)
	for i := range r.Processes {
		torment := rand.New(rand.NewPCG(r.Seed, uint64(100+i)))
		all.Go(func() { errs <- r.keepBusy(ctx, share, torment) })
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		r.report(ctx)
	}()
	all.Wait()
	cancel()
	<-told
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// keepBusy runs one worker to its end. With faults it is stopped or killed now
// and then; another one takes a killed worker's place, and does the rest.
func (r *run) keepBusy(ctx context.Context, share int, rng *rand.Rand) error {
	const mostKills = 12
	for kills := 0; ; kills++ {
		cmd, out, err := r.start(ctx, share)
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		killed, err := r.torment(ctx, cmd, done, kills < mostKills, rng)
		if !killed {
			if err != nil {
				return fmt.Errorf("a worker: %w: %s", err, strings.TrimSpace(cmd.Stderr.(*bytes.Buffer).String()))
			}
			return nil
		}
		r.fired(FaultKilled)
		share = max(1, share-out.calls/r.ClientsPerProcess)
	}
}

func (r *run) torment(ctx context.Context, cmd *exec.Cmd, done <-chan error, kill bool, rng *rand.Rand) (killed bool, err error) {
	if !r.Faults {
		return false, <-done
	}
	doom := time.After(time.Duration(3000+rng.IntN(3000)) * time.Millisecond)
	if !kill {
		doom = nil
	}
	for {
		select {
		case err := <-done:
			return false, err
		case <-ctx.Done():
			return false, <-done // the context kills it
		case <-doom:
			if cmd.Process.Kill() != nil {
				doom = nil // the worker has already ended
				continue
			}
			<-done
			return true, nil
		case <-time.After(time.Duration(1000+rng.IntN(2000)) * time.Millisecond):
			if cmd.Process.Signal(syscall.SIGSTOP) == nil {
				time.Sleep(time.Duration(300+rng.IntN(700)) * time.Millisecond)
				if cmd.Process.Signal(syscall.SIGCONT) == nil {
					r.fired(FaultStopped)
				}
			}
		}
	}
}

func (r *run) start(ctx context.Context, share int) (*exec.Cmd, *recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := order{
		URI: r.URI, Database: r.database.Name(), Process: r.started, Clients: r.ClientsPerProcess,
		Operations: share, Documents: r.documents, Seed: r.Seed, Faults: r.Faults,
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	out := &recording{lines: &r.lines}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), environment+"="+string(text))
	cmd.Stdout, cmd.Stderr = out, &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	r.started++
	r.output = append(r.output, out)
	return cmd, out, nil
}

func (r *run) fired(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.faults == nil {
		r.faults = map[string]int{}
	}
	r.faults[fault]++
}

func (r *run) report(ctx context.Context) {
	if r.Progress == nil {
		return
	}
	begun := time.Now()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Fprintf(r.Progress, "hammer: %v, %d records\n", time.Since(begun).Round(time.Second), r.lines.Load())
		}
	}
}

// collect puts the workers' histories and the documents' logs together.
func (r *run) collect(ctx context.Context) (*history.History, error) {
	all := &history.History{Faults: r.faults}
	for _, out := range r.output {
		h, err := history.Decode(bytes.NewReader(out.text.Bytes()))
		if err != nil {
			return nil, err
		}
		all.Merge(h)
	}
	for _, d := range r.documents {
		var found struct{ Log []string }
		err := r.database.Collection(collection).FindOne(ctx, bson.M{"_id": d.ID}).Decode(&found)
		if err != nil && d.ID != nowhere {
			return nil, fmt.Errorf("read the log of %s: %w", d.ID, err)
		}
		d.Log = found.Log
		all.Documents = append(all.Documents, d)
	}
	return all, nil
}
