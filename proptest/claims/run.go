package claims

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// What is counted.
const (
	Killed   = "process killed (-9) that held a job"
	Lost     = "job lost: its worker was slower than its lease"
	Once     = "each job is done once"
	Expired  = "a dead worker's job is claimed again, and not before its entry has expired"
	NotIdle  = "no worker is told that no job is free while one is"
	NoErrors = "no claim fails"
	Known    = "job that was free until a claim that is known"
)

const (
	processes  = 4
	perProcess = 8
	dying      = "process-0" // which is killed
	longest    = time.Minute // of a run, beside 10 ms for each job
)

// Config is the size of a run.
type Config struct {
	URI      string
	DB       *mongo.Database
	Jobs     int
	Careless bool // the workers lock nothing: the checks must fail
}

// Result is what a run costs, and how far it was from the order of the priorities.
type Result struct {
	Claims, Commands int   // until a worker was told that no job is free
	Idle             int   // how often that was wrong
	Distances        []int // by claim: how many jobs of a higher priority were free all the time
}

type run struct {
	Config
	jobs *mongo.Collection
	t    *tally.Tally

	killed bool
	dead   map[int]time.Time // jobs of the killed process, and when their entries expire

	mu       sync.Mutex // of the fields below
	claims   []claimed
	nothing  []span
	commands int
	Result
}

type span struct{ begun, ended int64 }

type claimed struct {
	span
	process string
	id      int
}

// Run has the workers do the jobs, kills a process, and checks. The counts are in t.
func Run(ctx context.Context, cfg Config, t *tally.Tally) (Result, error) {
	r := &run{Config: cfg, jobs: cfg.DB.Collection("jobs"), t: t, dead: map[int]time.Time{}}
	jobs := make([]any, cfg.Jobs)
	for id, priority := range rand.Perm(cfg.Jobs) {
		jobs[id] = bson.M{"_id": id, "state": "pending", "priority": priority}
	}
	keys := bson.D{{Key: "state", Value: 1}, {Key: "priority", Value: -1}}
	if _, err := r.jobs.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil {
		return Result{}, err
	}
	if _, err := r.jobs.InsertMany(ctx, jobs); err != nil {
		return Result{}, err
	}
	if err := r.work(ctx); err != nil {
		return Result{}, err
	}
	err := r.check(ctx)
	return r.Result, err
}

// work runs the processes until all is done.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest+time.Duration(r.Jobs)*10*time.Millisecond)
	defer cancel()
	var running []*child.Process
	defer func() {
		for _, p := range running {
			_ = p.End()
		}
	}()
	for number := range processes {
		p, err := r.start(ctx, fmt.Sprint("process-", number))
		if err != nil {
			return err
		}
		running = append(running, p)
	}
	if err := r.await(ctx, r.Jobs*7/8); err != nil {
		return err
	}
	if !r.Careless {
		if err := r.kill(ctx, running[0]); err != nil {
			return err
		}
	}
	if err := r.await(ctx, 0); err != nil {
		return err
	}
	r.t.Fired(Killed, min(1, len(r.dead)))
	return nil
}

// await waits until so many jobs are left.
func (r *run) await(ctx context.Context, left int) error {
	for {
		n, err := r.jobs.CountDocuments(ctx, pending)
		if err != nil {
			return fmt.Errorf("%d jobs were not done in time: %w", n, err)
		}
		if n <= int64(left) {
			return nil
		}
		if err := r.bury(ctx); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// kill kills a process that holds a job. It is first stopped, until the server has
// executed what it has sent.
func (r *run) kill(ctx context.Context, p *child.Process) error {
	r.killed = true
	for {
		p.Stop()
		time.Sleep(ttl / 10)
		if err := r.bury(ctx); err != nil {
			return err
		}
		if len(r.dead) > 0 {
			p.Kill()
			_ = p.End()
			return nil
		}
		clear(r.dead)
		p.Continue()
		time.Sleep(idle)
	}
}

// bury notes what the dead process holds. Its last commands may be executed after
// its death. The entries stand for seconds, so that none is missed.
func (r *run) bury(ctx context.Context) error {
	if !r.killed {
		return nil
	}
	cursor, err := r.jobs.Find(ctx, bson.M{"state": "pending", "lock.tags.write.owner": dying})
	if err != nil {
		return err
	}
	var held []struct {
		ID   int `bson:"_id"`
		Lock struct {
			Tags struct {
				Write []struct{ Expires time.Time }
			}
		}
	}
	if err := cursor.All(ctx, &held); err != nil {
		return err
	}
	for _, job := range held {
		r.dead[job.ID] = job.Lock.Tags.Write[0].Expires
	}
	return nil
}

func (r *run) start(ctx context.Context, name string) (*child.Process, error) {
	mode := "careful"
	if r.Careless {
		mode = "careless"
	}
	note := func(_ *child.Process, line string) { r.note(name, line) }
	return child.Start(ctx, childName, []string{r.URI, r.DB.Name(), name, mode}, note)
}
