package main

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"math/rand/v2"
	"slices"
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

// The processes, and the goroutines of each.
const processes, adders, deleters = 2, 12, 4

// What is counted: operations, and how they end.
const (
	operations = "operations"
	added      = "  contacts added"
	deleted    = "  categories deleted"
	inUse      = "  not deleted: a contact has it"
	gone       = "  not added: the category is gone"
	lost       = "  lock lost"
	conflicts  = "conflicts: made to wait by a lock"
)

// A job tells a process what to do.
type job struct {
	URI, Database  string
	Locks          bool
	Work, Duration time.Duration
	Category       bson.ObjectID // of the late write
}

// A result is what one race did, and what a full scan found after it.
type result struct {
	scan
	counts map[string]int
}

// race empties the address book, runs adders and deleters in several processes, and then scans the address book.
func (d *demo) race(ctx context.Context, locks bool) (r result, err error) {
	plain := openPlain(d.database)
	if err := plain.reset(ctx); err != nil {
		return r, err
	}
	r.counts = map[string]int{}
	j := job{URI: d.uri, Database: d.database.Name(), Locks: locks, Work: d.work, Duration: d.duration}
	err = child.Together(ctx, "race", slices.Repeat([]job{j}, processes), func(_ int, line string) error {
		var counts map[string]int
		err := json.Unmarshal([]byte(line), &counts)
		for what, n := range counts {
			r.counts[what] += n
		}
		return err
	})
	if err != nil {
		return r, err
	}
	if r.scan, err = plain.scan(ctx); err == nil {
		fmt.Printf("   %d operations. A full scan finds %v.\n", r.counts[operations], r.scan)
	}
	return r, err
}

// connect connects to the server. Each command first calls before.
func connect(uri string, before func(*event.CommandStartedEvent)) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI(uri).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, command *event.CommandStartedEvent) { before(command) },
	}))
}

// compete is the main function of a process of the race: many adders and deleters run for a while.
func compete(ctx context.Context, j job) error {
	var counts expvar.Map
	client, err := connect(j.URI, func(command *event.CommandStartedEvent) {
		if collection, _ := command.Command.Lookup("insert").StringValueOK(); collection == "contacts" {
			time.Sleep(j.Work) // after the adder's look at the category
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	plain := openPlain(client.Database(j.Database))
	add, remove := plain.AddContact, plain.DeleteCategory
	if j.Locks {
		locked, err := book.Open(client.Database(j.Database), doclock.OnEvent(func(_ context.Context, e doclock.Event) {
			if len(e.Holders) > 0 {
				counts.Add(conflicts, 1)
			}
		}))
		if err != nil {
			return err
		}
		defer func() { _ = locked.Close(context.WithoutCancel(ctx)) }()
		add, remove = locked.AddContact, locked.DeleteCategory
	}
	fmt.Println("ready")
	if err := child.Await(ctx); err != nil {
		return err
	}

	began := time.Now()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	repeat := func(n int, operate func() error) {
		for range n {
			running.Go(func() {
				for time.Since(began) < j.Duration && ctx.Err() == nil {
					if err := operate(); err != nil {
						fail(err)
					}
				}
			})
		}
	}
	repeat(adders, func() error {
		category, err := plain.oneOfTheNewest(ctx)
		if err == nil {
			names := []string{"Ada Abara", "Bilal Bakker", "Chen Costa", "Deepa Diallo", "Emeka Eriksen", "Fiona Fofana"}
			err = add(ctx, names[rand.IntN(len(names))], category)
		}
		return ended(&counts, added, err)
	})
	repeat(deleters, func() error { // creates a category, and deletes it soon after
		category, err := plain.create(ctx)
		if err == nil {
			time.Sleep(rand.N(20 * time.Millisecond))
			err = remove(ctx, category)
		}
		time.Sleep(rand.N(100 * time.Millisecond))
		return ended(&counts, deleted, err)
	})
	running.Wait()
	fmt.Println(counts.String())
	return context.Cause(ctx)
}

// ended counts an operation by how it ended. It returns an error that nobody expects.
func ended(counts *expvar.Map, as string, err error) error {
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
	counts.Add(operations, 1)
	counts.Add(as, 1)
	return nil
}
