package scenarios

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	workerKilled = "process killed (-9) that held a job"
	once         = "each job is done once"
	expired      = "a dead worker's job is claimed again after its entry has expired, and not before"
	notIdle      = "no worker is told that no job is free while one is"
	noErrors     = "no claim fails"
)

// worked is what a worker says: a claim, by the clock of the machine that all processes
// share. Nobody may set that clock meanwhile.
type worked struct {
	Job          int // or none, if no job is free
	Begun, Ended int64
	Failed       string
	dead         bool // it is of the process that is killed
}

const (
	none  = -1
	dying = "worker-1" // the first process, which is killed
)

var (
	pending    = bson.M{"state": "pending"}
	byPriority = bson.D{{Key: "priority", Value: -1}}
	doneOnce   = bson.M{"$set": bson.M{"state": "done"}, "$inc": bson.M{"done": 1}}
)

// workOnJobs has the workers of a process claim jobs by priority until ctx ends.
func workOnJobs(ctx context.Context, j job, jobs *mongo.Collection) error {
	locks, err := writelock.New(jobs, doclock.TTL(long), doclock.Owner(j.Owner))
	if err != nil {
		return err
	}
	next := func(ctx context.Context) (id int, end func(context.Context) error, err error) {
		var found struct {
			ID int `bson:"_id"`
		}
		if j.Careless {
			err := jobs.FindOne(ctx, pending, options.FindOne().SetSort(byPriority)).Decode(&found)
			if errors.Is(err, mongo.ErrNoDocuments) {
				err = doclock.ErrNotFound
			}
			return found.ID, func(ctx context.Context) error {
				_, err := jobs.UpdateByID(ctx, found.ID, doneOnce)
				return err
			}, err
		}
		lease, err := locks.TryAcquire(ctx, pending, doclock.SkipLocked(), doclock.Sort(byPriority), doclock.Into(&found))
		return found.ID, func(ctx context.Context) error { return lease.UpdateAndRelease(ctx, doneOnce) }, err
	}
	const workers, quick, slow = 8, 20 * time.Millisecond, 500 * time.Millisecond
	var all sync.WaitGroup
	for number := range workers {
		longest := quick
		if number == 0 {
			longest = slow
		}
		all.Go(func() {
			for ctx.Err() == nil {
				did := worked{Begun: time.Now().UnixNano()}
				id, end, err := next(context.WithoutCancel(ctx))
				did.Job, did.Ended = id, time.Now().UnixNano()
				switch {
				case errors.Is(err, doclock.ErrNotFound):
					did.Job = none
				case err != nil:
					did.Failed = err.Error()
				}
				say(did)
				time.Sleep(rand.N(longest))
				if err == nil {
					if err := end(context.WithoutCancel(ctx)); err != nil {
						say(worked{Failed: err.Error()})
					}
				}
			}
		})
	}
	all.Wait()
	return locks.Close(context.WithoutCancel(ctx))
}

// queue is the scenario of claims.
type queue struct {
	crew
	orphans []int // jobs that the dead process held
	expiry  int64 // when they were made to expire
	jobs    int
	all     int64 // when all of them were there
	mu      sync.Mutex
	claims  []worked
	idle    []worked
}

// claimJobs has 32 workers of four processes do jobs, and kills a process that holds
// some of them. It claims 100 jobs for each of n.
func claimJobs(t testing.TB, n int, counts *tally.Tally) { work(t, n, 100, false, counts) }

func work(t testing.TB, n, jobs int, careless bool, counts *tally.Tally) {
	for range n {
		q := &queue{crew: crew{counting: counting{t, counts}, docs: mongotest.Database(t).Collection("jobs")}}
		q.must(q.docs.Drop(t.Context()))
		q.supply(jobs)
		_, err := q.docs.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "state", Value: 1}, {Key: "priority", Value: -1}}})
		q.must(err)
		var processes []*child.Process
		for range 4 {
			p, _ := start(&q.crew, "worker", job{URI: mongotest.URI(t), Careless: careless}, q.note)
			processes = append(processes, p)
		}
		if !careless {
			q.kill(processes[0])
		}
		q.until("all jobs are done", func() bool { return q.left(pending) == 0 })
		for _, p := range processes[1:] {
			q.must(p.End())
		}
		_ = processes[0].End()
		q.Checked(once, q.jobs)
		if twice := q.left(bson.M{"done": bson.M{"$ne": 1}}); twice > 0 {
			q.Violated(once, "%d jobs were not done once", twice)
		}
		q.judge()
	}
}

// supply adds n jobs.
func (q *queue) supply(n int) {
	var more []any
	for _, priority := range rand.Perm(n) {
		more = append(more, bson.M{"_id": q.jobs, "state": "pending", "priority": priority})
		q.jobs++
	}
	_, err := q.docs.InsertMany(q.Context(), more)
	q.must(err)
	q.all = time.Now().UnixNano()
}

// left counts jobs.
func (q *queue) left(filter bson.M) int64 {
	n, err := q.docs.CountDocuments(q.Context(), filter)
	q.must(err)
	return n
}

// kill kills the first process when it holds a job. The others can do all jobs but
// those, until they expire.
func (q *queue) kill(p *child.Process) {
	held := bson.M{"state": "pending", "lock.tags.write.owner": dying}
	q.until("a worker of the first process has a job", func() bool {
		p.Stop()
		if q.left(held) > 0 {
			return true
		}
		p.Continue()
		if q.left(pending) == 0 { // the others were faster
			q.supply(q.jobs)
		}
		return false
	})
	p.Kill()
	_ = p.End()
	q.Fired(workerKilled, 1)
	// Its last commands may be executed after its death: they finish a job, or take one.
	q.until("the others have done their jobs", func() bool { return q.left(pending) == q.left(held) })
	q.dead, q.expiry = []string{dying}, time.Now().UnixNano()
	q.until("the dead worker's jobs are done", func() bool {
		var theirs []int
		q.must(q.docs.Distinct(q.Context(), "_id", held).Decode(&theirs))
		q.orphans = append(q.orphans, theirs...)
		q.expire()
		return q.left(pending) == 0
	})
}

func (q *queue) note(_ *child.Process, owner string, e worked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.check(noErrors, e.Failed == "", "%s", e.Failed)
	switch {
	case e.Failed != "":
	case e.Job == none:
		q.idle = append(q.idle, e)
	default:
		e.dead = owner == dying
		q.claims = append(q.claims, e)
	}
}

// judge checks the claims that found nothing, by the job that was free the longest: a
// job was free until its first claim began. Those that the dead process held are left
// out.
func (q *queue) judge() {
	first := map[int]int64{}
	for _, c := range q.claims {
		begun, known := first[c.Job]
		switch {
		case slices.Contains(q.orphans, c.Job):
			q.check(expired, c.dead || c.Ended > q.expiry, "job %d is claimed %v before its entry expires", c.Job, time.Duration(q.expiry-c.Ended))
		case !known || c.Begun < begun:
			first[c.Job] = c.Begun
		}
	}
	var latest int64
	for _, begun := range first {
		latest = max(latest, begun)
	}
	for _, e := range q.idle {
		q.check(notIdle, latest <= e.Ended || e.Begun < q.all, "a job was free for %v more", time.Duration(latest-e.Ended))
	}
}
