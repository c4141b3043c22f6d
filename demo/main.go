package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	child.Main("race", compete) // if this program has started itself as another process
	child.Main("late", writeLate)
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program, and returns its exit status.
func run(ctx context.Context, args []string, out, progress io.Writer) (status int) {
	d, err := parse(args, out, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(progress, "demo:", err)
		return 2
	}
	r, err := d.demonstrate(ctx)
	if ctx.Err() != nil {
		err = errors.New("interrupted; the processes are stopped and the database is dropped")
	}
	if err != nil {
		_, _ = fmt.Fprintln(progress, "demo:", err)
	}
	if err != nil || !r.good {
		return 1
	}
	return 0
}

// A demo is what the command line chooses, and what the three parts have in common. They have a database of their own.
type demo struct {
	duration, work time.Duration
	processes      int

	uri           string
	database      *mongo.Database
	out, progress io.Writer
}

func parse(args []string, out, progress io.Writer) (*demo, error) {
	d := demo{out: out, progress: progress}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(progress, "Usage: go run ./demo [flags]\n\nThe demo shows what the locks are for; see go doc ./demo.")
		flags.PrintDefaults()
	}
	flags.DurationVar(&d.duration, "duration", 5*time.Second, "how long each of the two runs takes, 100ms to 1h")
	flags.DurationVar(&d.work, "work", 2*time.Millisecond, "what an application does between its look at the category and its insert, up to 1s; the same in both runs")
	flags.IntVar(&d.processes, "processes", 2, "number of processes, 2 to 64")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("there are no arguments but flags, and %q is none", flags.Args())
	case d.duration < 100*time.Millisecond || d.duration > time.Hour:
		return nil, fmt.Errorf("-duration is %v; give 100ms to 1h", d.duration)
	case d.work < 0 || d.work > time.Second:
		return nil, fmt.Errorf("-work is %v; give 0 to 1s", d.work)
	case d.processes < 2 || d.processes > 64:
		return nil, fmt.Errorf("-processes is %d; give 2 to 64", d.processes)
	}
	return &d, nil
}

// print prints a line. The program goes on if it can't be printed.
func (d *demo) print(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

// demonstrate gets a server and a database, and runs the three parts there.
func (d *demo) demonstrate(ctx context.Context) (r report, err error) {
	server, err := mongotest.Start(ctx, d.progress)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		return r, fmt.Errorf("connecting to the server: %w", err)
	}
	d.uri, d.database = server.URI(), client.Database("doclock_demo_"+strings.ReplaceAll(uuid.NewString(), "-", ""))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, d.database.Drop(ctx), client.Disconnect(ctx))
	}()
	return d.runParts(ctx, server.Description())
}

// maxTries bounds how often the run without locks is repeated, with more work and time, until it leaves a dangling reference.
const maxTries = 5

// runParts runs the two races and the late write.
func (d *demo) runParts(ctx context.Context, server string) (r report, err error) {
	d.print(`An address book that several processes change at the same time, on %s.

Adders look a category up, work for %s, and insert a contact of it.
Deleters create a category, and delete it soon after if no contact has it.
The race: if a deleter runs between an adder's look and its insert, the contact has a category that doesn't exist,
a dangling reference.

%d processes with %d adders and %d deleters each do the same work twice.

1. Without locks`, server, d.work, d.processes, adders, deleters)
	r.without, err = d.race(ctx, false)
	for try := 1; err == nil && r.without.Dangling == 0 && try < maxTries; try++ {
		d.work = max(2*d.work, time.Millisecond)
		d.duration *= 2
		d.print("   No reference dangles yet. Once more, with %v of work between look and insert, and for %v; the run with locks will be the same.",
			d.work, d.duration)
		r.without, err = d.race(ctx, false)
	}
	if err != nil {
		return r, fmt.Errorf("the run without locks: %w", err)
	}

	d.print("\n2. With locks: an adder holds \"read\" on the category, a deleter \"write\"")
	r.with, err = d.race(ctx, true)
	if err != nil {
		return r, fmt.Errorf("the run with locks: %w", err)
	}

	d.print("\n3. A late write: an adder is stopped until its lease has expired, and continued")
	r.late, err = d.lateWrite(ctx)
	if err != nil {
		return r, fmt.Errorf("the late write: %w", err)
	}
	r.judge()
	d.print("\n%s\n%s", r.table(), strings.Join(r.verdict, "\n"))
	return r, nil
}
