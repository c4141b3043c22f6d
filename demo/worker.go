package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// workerEnv in the environment makes this program a worker: a process in which adders and deleters run. It reads a job, and then
// empty objects that tell it to go on, from its standard input. It writes messages to its standard output. All are lines of JSON.
// A worker ends when its input ends, and so it ends with the program that started it.
const workerEnv = "DOCLOCK_DEMO_WORKER"

// A job tells a worker what to do: the late write, or else adders and deleters for a while.
type job struct {
	URI       string
	Database  string
	LateWrite *lateWriteJob `json:",omitempty"`

	Locks    bool
	Adders   int
	Deleters int
	Work     time.Duration
	Duration time.Duration
	Seed     uint64 // of this worker
}

// A message is what a worker reports.
type message struct {
	Ready    bool          `json:",omitempty"`
	Progress *Counts       `json:",omitempty"`
	Result   *Counts       `json:",omitempty"`
	Elapsed  time.Duration `json:",omitempty"` // of the result
	Step     *step         `json:",omitempty"`
	Error    string        `json:",omitempty"`
}

// A worker is the state of a worker's process.
type worker struct {
	job     job
	proceed chan struct{} // the program says: go on
	send    func(message)
	client  *mongo.Client
	book    *book
	adder   *adder
	deleter *deleter
	end     time.Time // of the work
	tally   tally
}

// work is a worker's main function.
func work(in io.Reader, out io.Writer) (status int) {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches all processes of the terminal; the main program ends this one
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	w := &worker{proceed: make(chan struct{}), send: func(m message) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(m) // if nobody reads, the input ends too
	}}
	fail := func(err error) int {
		w.send(message{Error: err.Error()})
		return 1
	}

	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&w.job); err != nil {
		return fail(fmt.Errorf("reading the job: %w", err))
	}
	go func() {
		defer cancel()
		for decoder.Decode(new(struct{})) == nil {
			select {
			case w.proceed <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()

	client, err := mongo.Connect(options.Client().ApplyURI(w.job.URI).SetMonitor(w.tally.monitor()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	w.client, w.book = client, openBook(client.Database(w.job.Database))

	do := w.workConcurrently
	if w.job.LateWrite != nil {
		do = w.writeLate
	}
	if err := do(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// await waits until the program says: go on.
func (w *worker) await(ctx context.Context) error {
	select {
	case <-w.proceed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// workConcurrently runs many adders and deleters for a while.
func (w *worker) workConcurrently(ctx context.Context) error {
	locks, err := multilock.New(w.book.categories, relations.WritePreferring())
	if err != nil {
		return err
	}
	if err := w.client.Ping(ctx, nil); err != nil {
		return err
	}
	w.adder, w.deleter = newAdder(w.book, locks, w.job.Work), &deleter{book: w.book, locks: locks}
	w.send(message{Ready: true})
	if err := w.await(ctx); err != nil {
		return err
	}

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	began := time.Now()
	w.end = began.Add(w.job.Duration)
	before := w.tally.counts()
	var running sync.WaitGroup
	for i := range w.job.Adders + w.job.Deleters {
		random := rand.New(rand.NewPCG(w.job.Seed, uint64(i)))
		operate := w.adding
		if i >= w.job.Adders {
			operate = w.deleting
		}
		running.Go(func() {
			for time.Now().Before(w.end) && ctx.Err() == nil {
				if err := operate(ctx, random); err != nil {
					fail(err)
				}
			}
		})
	}
	stop := w.reportProgress()
	running.Wait()
	stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	result := w.tally.counts()
	result.Commands -= before.Commands
	w.send(message{Result: &result, Elapsed: time.Since(began)})
	return locks.Close(ctx)
}

// reportProgress sends the counts ten times a second.
func (w *worker) reportProgress() (stop func()) {
	done := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				counts := w.tally.counts()
				w.send(message{Progress: &counts})
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		reporting.Wait()
	}
}

// adding is one operation of an adder, with a random category and contact.
func (w *worker) adding(ctx context.Context, random *rand.Rand) error {
	add := w.adder.addWithoutLock
	if w.job.Locks {
		add = w.adder.addWithLock
	}
	return w.tally.count(&w.tally.added, add(begin(ctx), random.IntN(contactCount), anyCategory(random)))
}

// longestPause bounds a deleter's pause after each deletion: categories are deleted less often than they are used.
const longestPause = 400 * time.Millisecond

// deleting is one operation of a deleter. It then creates a category of the same name, so that the others find one, and pauses.
func (w *worker) deleting(ctx context.Context, random *rand.Rand) error {
	remove := w.deleter.deleteWithoutLock
	if w.job.Locks {
		remove = w.deleter.deleteWithLock
	}
	name := anyCategory(random)
	err := remove(begin(ctx), name)
	if err == nil {
		if err := w.book.createCategory(ctx, name); err != nil {
			return err
		}
	}
	time.Sleep(min(time.Duration(random.Int64N(int64(longestPause))), time.Until(w.end)))
	return w.tally.count(&w.tally.deleted, err)
}

func anyCategory(random *rand.Rand) string {
	return categoryNames[random.IntN(len(categoryNames))]
}
