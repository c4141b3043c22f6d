// Demo shows what the locks are for. It exits with status 1 if one of its three parts doesn't end as it should:
//
//  1. Several processes change one address book without locks. A full scan finds dangling references: contacts of a category that
//     doesn't exist. Contacts and categories are documents of two collections, so no single command covers both.
//  2. The same with locks, by the two functions of examples/contact, as they are there to copy: a full scan finds none.
//  3. A late write: an adder's process is stopped until its lease has expired, and a deleter has deleted the category. Then the
//     process goes on. The commit of its insert is late, and refused. It needs a server with transactions.
//
// This runs it, and it says what its processes do:
//
//	go run ./demo
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	child.Main("race", compete) // if this program has started itself as another process
	child.Main("late", writeLate)
	d := demo{work: 2 * time.Millisecond}
	flag.DurationVar(&d.duration, "duration", 3*time.Second, "how long each of the two races takes")
	flag.Parse()
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r, err := d.run(ctx)
	if ctx.Err() != nil {
		err = errors.Join(errors.New("interrupted; the processes are stopped"), d.kept)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil || !r.good {
		os.Exit(1)
	}
}

// A demo is what its three parts have in common. They have a database of their own.
type demo struct {
	duration, work time.Duration
	uri            string
	database       *mongo.Database
	kept           error // why the database was not dropped, or nil
}

// run gets a server and a database, and runs the three parts there.
func (d *demo) run(ctx context.Context) (r report, err error) {
	server, err := mongotest.Open(ctx, os.Getenv("MONGODB_URI"), locktest.ReplicaSet())
	if err != nil {
		return r, err
	}
	defer server.Close()
	server.LimitTransactions(2 * time.Second) // the deleter waits for so long in the third part, and for a minute or more elsewhere
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		return r, fmt.Errorf("connecting to the server: %w", err)
	}
	d.uri, d.database = server.URI(), client.Database("doclock_demo_"+strings.ReplaceAll(uuid.NewString(), "-", ""))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if drop := d.database.Drop(ctx); drop != nil {
			d.kept = fmt.Errorf("database %s is left: %w", d.database.Name(), drop)
		}
		err = errors.Join(err, d.kept, client.Disconnect(ctx))
	}()

	if r.without, err = d.raceWithout(ctx, server.Description()); err != nil {
		return r, err
	}
	fmt.Println("\n2. With locks: an adder holds \"read\" on the category, a deleter \"write\"")
	if r.with, err = d.race(ctx, true); err != nil {
		return r, err
	}
	fmt.Println("\n3. A late write: an adder is stopped until its lease has expired, and continued")
	if r.late, err = d.lateWrite(ctx); err != nil {
		return r, err
	}
	fmt.Printf("\n%s\n%s\n", r.table(), r.judge())
	return r, nil
}

// raceWithout is the race without locks. It is repeated, with more work and time, until it leaves a dangling reference.
func (d *demo) raceWithout(ctx context.Context, server string) (r result, err error) {
	fmt.Printf(`An address book that several processes change at the same time, on %s.

Adders look a category up, work for %s, and insert a contact of it.
Deleters create a category, and delete it soon after if no contact has it.
The race: if a deleter runs between an adder's look and its insert, the contact has a category that doesn't exist,
a dangling reference.

%d processes with %d adders and %d deleters each do the same work twice.

1. Without locks
`, server, d.work, processes, adders, deleters)
	for range 5 {
		if r, err = d.race(ctx, false); err != nil || r.Dangling > 0 {
			break
		}
		d.work *= 2
		d.duration *= 2
		fmt.Printf("   No reference dangles yet. From now on with %v of work between look and insert, and for %v.\n", d.work, d.duration)
	}
	return r, err
}
