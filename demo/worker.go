package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/examples/contact/book"
	"github.com/doclock/doclock/internal/child"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A job tells a process of the race what to do.
type job struct {
	URI, Database  string
	Locks          bool
	Work, Duration time.Duration
}

// The goroutines of a process.
const adders, deleters = 12, 4

// What is counted: how operations end, and what they take.
const (
	added      = "contacts added"
	deleted    = "categories deleted"
	inUse      = "not deleted: a contact has it"
	gone       = "not added: the category is gone"
	lost       = "lock lost"
	operations = "operations"
	conflicts  = "conflicts: made to wait by a lock"
	commands   = "commands"
)

var endings = []string{added, deleted, inUse, gone, lost}

// A message is a line that a process of the race prints: what it has counted so far.
type message struct {
	Counts  map[string]int
	Elapsed time.Duration
}

// A worker is a process of the race.
type worker struct {
	job
	plain plainBook
	book  interface { // with locks or without
		AddContact(ctx context.Context, name string, category bson.ObjectID) error
		DeleteCategory(ctx context.Context, category bson.ObjectID) error
	}
	began, end time.Time // of the work

	mu     sync.Mutex
	counts map[string]int
}

func (w *worker) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// say prints the counts. If nobody reads them, the process ends soon.
func (w *worker) say() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(message{w.counts, time.Since(w.began)})
}

// connect connects to the server. Each command first calls before.
func connect(uri string, before func(*event.CommandStartedEvent)) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI(uri).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, command *event.CommandStartedEvent) { before(command) },
	}))
}

// insertsContact reports whether a command is the one that an adder sends after its look at the category.
func insertsContact(command *event.CommandStartedEvent) bool {
	collection, _ := command.Command.Lookup("insert").StringValueOK()
	return collection == "contacts"
}

// compete is the main function of a process of the race.
func compete(ctx context.Context, j job) error {
	w := &worker{job: j, counts: map[string]int{}}
	client, err := connect(j.URI, func(command *event.CommandStartedEvent) {
		w.count(commands)
		if insertsContact(command) {
			time.Sleep(j.Work)
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	w.plain = openPlain(client.Database(j.Database))
	w.book = w.plain
	if j.Locks {
		locked, err := book.Open(client.Database(j.Database), doclock.OnEvent(func(_ context.Context, e doclock.Event) {
			if len(e.Holders) > 0 {
				w.count(conflicts)
			}
		}))
		if err != nil {
			return err
		}
		defer func() { _ = locked.Close(context.WithoutCancel(ctx)) }()
		w.book = locked
	}
	w.say() // it is ready
	if err := child.Await(ctx); err != nil {
		return err
	}
	return w.work(ctx)
}

// work runs many adders and deleters for a while.
func (w *worker) work(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	w.began = time.Now()
	w.end = w.began.Add(w.Duration)
	var running sync.WaitGroup
	repeat := func(n int, operate func(context.Context) error) {
		for range n {
			running.Go(func() {
				for time.Now().Before(w.end) && ctx.Err() == nil {
					if err := operate(ctx); err != nil {
						fail(err)
					}
				}
			})
		}
	}
	repeat(adders, w.adding)
	repeat(deleters, w.deleting)
	repeat(1, func(context.Context) error {
		time.Sleep(100 * time.Millisecond)
		w.say()
		return nil
	})
	running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.say()
	return nil
}

// adding is one operation of an adder.
func (w *worker) adding(ctx context.Context) error {
	category, err := w.plain.oneOfTheNewest(ctx)
	if err == nil {
		err = w.book.AddContact(ctx, names[rand.IntN(len(names))], category)
	}
	return w.ended(added, err)
}

// deleting is one operation of a deleter: it creates a category, and deletes it soon after.
func (w *worker) deleting(ctx context.Context) error {
	category, err := w.plain.create(ctx)
	if err == nil {
		w.pause(20 * time.Millisecond)
		err = w.book.DeleteCategory(ctx, category)
	}
	w.pause(100 * time.Millisecond)
	return w.ended(deleted, err)
}

// ended counts an operation by how it ended. It returns an error that nobody expects.
func (w *worker) ended(as string, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown):
		as = lost
	case errors.Is(err, mongo.ErrNoDocuments), errors.Is(err, doclock.ErrNotFound):
		as = gone
	case errors.Is(err, book.ErrInUse):
		as = inUse
	default:
		return err
	}
	w.count(operations)
	w.count(as)
	return nil
}

func (w *worker) pause(longest time.Duration) {
	time.Sleep(min(rand.N(longest), time.Until(w.end)))
}
