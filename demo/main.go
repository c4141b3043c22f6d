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

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program, and returns its exit status.
func run(ctx context.Context, args []string, out, progress io.Writer) (status int) {
	s, err := parse(args, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	good, err := demonstrate(ctx, s, out, progress)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(progress, "demo: interrupted; the workers are stopped and the database is dropped")
		return 1
	case err != nil:
		_, _ = fmt.Fprintln(progress, "demo:", err)
		return 1
	case !good:
		return 1
	default:
		return 0
	}
}

// demonstrate gets a server and a database, runs the three parts there, and prints the report. It returns whether all parts
// ended as they should.
func demonstrate(ctx context.Context, s settings, out, progress io.Writer) (good bool, err error) {
	server, err := mongotest.Start(ctx, progress)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		return false, fmt.Errorf("connecting to the server: %w", err)
	}
	database := client.Database("doclock_demo_" + strings.ReplaceAll(uuid.NewString(), "-", ""))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, database.Drop(ctx), client.Disconnect(ctx))
	}()

	d := &demo{settings: s, uri: server.URI(), database: database, book: openBook(database), people: people(s.seed)}
	printer := newPrinter(out, progress)
	if s.json {
		printer = newPrinter(io.Discard, progress)
	}
	r, err := d.runParts(ctx, server.Description(), printer)
	if err != nil {
		return false, err
	}
	if s.json {
		return r.Good, r.writeJSON(out)
	}
	return r.Good, nil
}

// A demo is what the three parts have in common. They have a database of their own.
type demo struct {
	settings settings
	uri      string
	database *mongo.Database
	book     *book
	people   []person
}

// maxTries bounds how often the run without locks is repeated, with more work and time, until it leaves a dangling reference.
const maxTries = 5

// runParts runs the two races and the late write.
func (d *demo) runParts(ctx context.Context, server string, p *printer) (report, error) {
	r := newReport(d.settings, server)
	p.introduce(r)

	p.title("1. Without locks")
	without, err := d.race(ctx, false, p.progress())
	for try := 1; err == nil && without.Dangling == 0 && try < maxTries; try++ {
		d.settings.work = max(2*d.settings.work, time.Millisecond)
		d.settings.duration *= 2
		p.result(without)
		p.note("No reference dangles yet. Once more, with %v of work between look and write, and for %v; the run with locks will be the same.",
			d.settings.work, d.settings.duration)
		without, err = d.race(ctx, false, p.progress())
	}
	if err != nil {
		return r, fmt.Errorf("the run without locks: %w", err)
	}
	p.result(without)

	p.title(`2. With locks: an adder holds "read" on the category, a deleter "write"`)
	with, err := d.race(ctx, true, p.progress())
	if err != nil {
		return r, fmt.Errorf("the run with locks: %w", err)
	}
	p.result(with)

	p.title("3. A late write: an adder is stopped until its lease has expired, and continued")
	r.LateWrite, err = d.lateWrite(ctx, p.logEntry)
	if err != nil {
		return r, fmt.Errorf("the late write: %w", err)
	}
	if r.LateWrite.LeftOut != "" {
		p.note("Left out: %s.", r.LateWrite.LeftOut)
	}

	r.Work = d.settings.work.String()
	r.Runs = []result{without, with}
	r.judge()
	p.conclude(r)
	return r, nil
}
