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
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	workersGone = "program cut off for good while it held a job"
	once        = "each job is done once"
	oneWorker   = "no two workers believe in their leases of one job"
	notIdle     = "no worker is told that no job is free while one is"
	noErrors    = "no claim fails"
)

var (
	pending    = bson.M{"state": "pending"}
	byPriority = bson.D{{Key: "priority", Value: -1}}
	doneOnce   = bson.M{"$set": bson.M{"state": "done"}, "$inc": bson.M{"done": 1}}
)

type job struct {
	ID int `bson:"_id"`
}

// queue is the jobs, and what the workers were told of them.
type queue struct {
	counting
	jobs     *mongo.Collection
	careless bool // nothing is locked

	mu    sync.Mutex
	first map[int]time.Time      // when the first claim began that got the job: it was free until then
	taken map[int]*doclock.Lease // the last one of the job
	idle  []time.Time            // when a worker was told that no job is free
}

// claimJobs has the workers of four programs do 100 jobs by priority. One program is cut
// off for good while it holds some.
func claimJobs(t testing.TB, _ int, counts *tally.Tally) {
	for !work(counting{t, counts}, false) { // the others were faster
	}
}

// work reports whether the program held a job when it was cut off.
func work(c counting, careless bool) bool {
	const jobs = 100
	q := &queue{counting: c, jobs: mongotest.Database(c).Collection("jobs"), careless: careless, first: map[int]time.Time{}, taken: map[int]*doclock.Lease{}}
	c.must(q.jobs.Drop(c.Context()))
	var all []any
	for id, priority := range rand.Perm(jobs) {
		all = append(all, bson.M{"_id": id, "state": "pending", "priority": priority})
	}
	_, err := q.jobs.InsertMany(c.Context(), all)
	c.must(err)

	ctx, end := context.WithCancel(c.Context())
	nets := []*faultnet.Net{faultnet.New(), faultnet.New(), faultnet.New(), faultnet.New()}
	var programs sync.WaitGroup
	for i, net := range nets {
		net.Delay(time.Duration(i+1) * time.Millisecond)
		programs.Go(func() { q.program(ctx, net, i == 0) })
	}
	var orphans []job
	for !careless && len(orphans) == 0 && q.left(pending) > 0 {
		nets[0].Down(false)
		time.Sleep(rand.N(50 * time.Millisecond))
		nets[0].Down(true)
		time.Sleep(time.Second) // what is under way is executed
		held, err := q.jobs.Find(ctx, bson.M{"state": "pending", "lock.tags.write.owner": "gone"})
		c.must(err)
		c.must(held.All(ctx, &orphans))
	}
	if len(orphans) > 0 {
		c.Fired(workersGone, 1)
	}
	for q.left(pending) > 0 { // the orphans are free when their entries have expired
		time.Sleep(100 * time.Millisecond)
	}
	end()
	nets[0].Down(false)
	programs.Wait()
	c.Checked(once, jobs)
	if twice := q.left(bson.M{"done": bson.M{"$ne": 1}}); twice > 0 {
		c.Violated(once, "%d jobs were not done once", twice)
	}
	var latest time.Time // until when a job was free that nobody had claimed before
	for id, begun := range q.first {
		if begun.After(latest) && !slices.Contains(orphans, job{id}) {
			latest = begun
		}
	}
	for _, at := range q.idle {
		c.check(notIdle, !at.Before(latest), "a job was free for %v more", latest.Sub(at))
	}
	return len(orphans) > 0
}

// left counts jobs.
func (q *queue) left(filter bson.M) int64 {
	n, err := q.jobs.CountDocuments(q.Context(), filter)
	q.must(err)
	return n
}

// program has its workers do jobs until ctx ends. The first of them is slow.
func (q *queue) program(ctx context.Context, net *faultnet.Net, gone bool) {
	const workers, quick, slow = 8, 20 * time.Millisecond, 500 * time.Millisecond
	owner := "here"
	if gone {
		owner = "gone"
	}
	jobs := mongotest.Client(q, options.Client().SetDialer(net).SetRetryWrites(false)).Database(q.jobs.Database().Name()).Collection(q.jobs.Name())
	locks, err := writelock.New(jobs, doclock.Owner(owner), doclock.TTL(5*time.Second))
	if err != nil {
		q.Error(err)
		return
	}
	var all sync.WaitGroup
	for number := range workers {
		longest := quick
		if number == 0 {
			longest = slow
		}
		all.Go(func() {
			for ctx.Err() == nil {
				if err := q.work(jobs, locks, rand.N(longest)); !gone {
					q.check(noErrors, err == nil, "%v", err)
				}
			}
		})
	}
	all.Wait()
	if err := locks.Close(q.Context()); err != nil {
		q.Error(err)
	}
}

// work does a job, if one is free. A caller of the library waits for the answers.
func (q *queue) work(jobs *mongo.Collection, locks *writelock.Locker, takes time.Duration) error {
	var job job
	if q.careless {
		err := jobs.FindOne(q.Context(), pending, options.FindOne().SetSort(byPriority)).Decode(&job)
		time.Sleep(takes)
		if err == nil {
			_, err = jobs.UpdateByID(q.Context(), job.ID, doneOnce)
		}
		return err
	}
	begun := time.Now()
	lease, err := locks.TryAcquire(q.Context(), pending, doclock.SkipLocked(), doclock.Sort(byPriority), doclock.Into(&job))
	if errors.Is(err, doclock.ErrNotFound) {
		q.mu.Lock()
		q.idle = append(q.idle, time.Now())
		q.mu.Unlock()
		time.Sleep(10 * takes)
		return nil
	}
	if err != nil {
		return err
	}
	q.got(job.ID, begun, lease)
	time.Sleep(takes)
	return lease.UpdateAndRelease(q.Context(), doneOnce)
}

// got notes a claim.
func (q *queue) got(id int, begun time.Time, lease *doclock.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first, known := q.first[id]; !known || begun.Before(first) {
		q.first[id] = begun
	}
	before := q.taken[id]
	q.check(oneWorker, before == nil || before.Err() != nil, "job %d has two", id)
	q.taken[id] = lease
}
