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

// workerEnv, in the environment, makes this program a worker: a process that other goroutines than the main program's work
// in. It reads an order and then signals from its standard input, and writes messages to its standard output, as lines of
// JSON. It ends when its input does, and so with the program that started it.
const workerEnv = "DOCLOCK_DEMO_WORKER"

// An order tells a worker what to do.
type order struct {
	URI      string
	Database string
	Scene    *scene `json:",omitempty"` // play the adder of the scene, instead of working

	Locks    bool
	Adders   int
	Deleters int
	Work     time.Duration
	Duration time.Duration
	Seed     uint64 // of this worker
}

// A message is what a worker tells.
type message struct {
	Ready    bool          `json:",omitempty"`
	Progress *Counts       `json:",omitempty"`
	Result   *Counts       `json:",omitempty"`
	Elapsed  time.Duration `json:",omitempty"` // of the result
	Event    *sceneEvent   `json:",omitempty"`
	Error    string        `json:",omitempty"`
}

// A worker is the state of a worker's process.
type worker struct {
	order   order
	signals chan struct{} // the program says: go on
	say     func(message)
	client  *mongo.Client
	book    *book
	adder   *adder
	deleter *deleter
	end     time.Time // of the work
	tally   tally
}

// work is a worker's main function.
func work(in io.Reader, out io.Writer) (status int) {
	signal.Ignore(os.Interrupt) // a Ctrl-C reaches all processes at the terminal; the program will tell us
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	w := &worker{signals: make(chan struct{}), say: func(m message) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(m) // nobody listens: then our input ends too
	}}
	fail := func(err error) int {
		w.say(message{Error: err.Error()})
		return 1
	}

	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&w.order); err != nil {
		return fail(fmt.Errorf("reading the order: %w", err))
	}
	go func() {
		defer cancel()
		for decoder.Decode(new(struct{})) == nil {
			select {
			case w.signals <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()

	client, err := mongo.Connect(options.Client().ApplyURI(w.order.URI).SetMonitor(w.tally.monitor()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	w.client, w.book = client, openBook(client.Database(w.order.Database))

	play := w.workTogether
	if w.order.Scene != nil {
		play = w.comeLate
	}
	if err := play(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// await waits for a signal.
func (w *worker) await(ctx context.Context) error {
	select {
	case <-w.signals:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// workTogether has many adders and deleters work for a while.
func (w *worker) workTogether(ctx context.Context) error {
	locks, err := multilock.New(w.book.categories, relations.WritePreferring())
	if err != nil {
		return err
	}
	if err := w.client.Ping(ctx, nil); err != nil {
		return err
	}
	w.adder, w.deleter = newAdder(w.book, locks, w.order.Work), &deleter{book: w.book, locks: locks}
	w.say(message{Ready: true})
	if err := w.await(ctx); err != nil {
		return err
	}

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	began := time.Now()
	w.end = began.Add(w.order.Duration)
	before := w.tally.counts()
	var hands sync.WaitGroup
	for i := range w.order.Adders + w.order.Deleters {
		random := rand.New(rand.NewPCG(w.order.Seed, uint64(i)))
		hand := w.adding
		if i >= w.order.Adders {
			hand = w.deleting
		}
		hands.Go(func() {
			for time.Now().Before(w.end) && ctx.Err() == nil {
				if err := hand(ctx, random); err != nil {
					fail(err)
				}
			}
		})
	}
	stop := w.tell()
	hands.Wait()
	stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	result := w.tally.counts()
	result.Commands -= before.Commands
	w.say(message{Result: &result, Elapsed: time.Since(began)})
	return locks.Close(ctx)
}

// tell says every now and then how far the work is.
func (w *worker) tell() (stop func()) {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				counts := w.tally.counts()
				w.say(message{Progress: &counts})
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		telling.Wait()
	}
}

// adding is one operation of an adder: any category, on any contact.
func (w *worker) adding(ctx context.Context, random *rand.Rand) error {
	add := w.adder.addWithoutLock
	if w.order.Locks {
		add = w.adder.addWithLock
	}
	return w.tally.enter(&w.tally.added, add(begin(ctx), random.IntN(contactCount), anyCategory(random)))
}

// longestRest is what a deleter has at most after each deletion: categories are deleted more seldom than used.
const longestRest = 400 * time.Millisecond

// deleting is one operation of a deleter. So that the others have something to work on, it creates a category of the same
// name, and then has a rest.
func (w *worker) deleting(ctx context.Context, random *rand.Rand) error {
	remove := w.deleter.deleteWithoutLock
	if w.order.Locks {
		remove = w.deleter.deleteWithLock
	}
	name := anyCategory(random)
	err := remove(begin(ctx), name)
	if err == nil {
		if err := w.book.create(ctx, name); err != nil {
			return err
		}
	}
	time.Sleep(min(time.Duration(random.Int64N(int64(longestRest))), time.Until(w.end)))
	return w.tally.enter(&w.tally.deleted, err)
}

func anyCategory(random *rand.Rand) string {
	return categoryNames[random.IntN(len(categoryNames))]
}
