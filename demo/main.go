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
	good, err := perform(ctx, s, out, progress)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(progress, "demo: interrupted; the workers are ended and the database is dropped")
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

// perform gets a server and a database, and plays the whole piece there. It tells whether all went as it should.
func perform(ctx context.Context, s settings, out, progress io.Writer) (good bool, err error) {
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

	stage := &stage{settings: s, uri: server.URI(), database: database, book: openBook(database), people: people(s.seed)}
	narrator := newNarrator(out, progress)
	if s.json {
		narrator = newNarrator(io.Discard, progress)
	}
	r, err := stage.perform(ctx, server.Description(), narrator)
	if err != nil {
		return false, err
	}
	if s.json {
		return r.Good, r.writeJSON(out)
	}
	return r.Good, nil
}

// mostTries bounds how often the run without locks is repeated under more pressure until the race shows.
const mostTries = 5

// perform plays the two runs and the scene.
func (s *stage) perform(ctx context.Context, server string, n *narrator) (report, error) {
	r := newReport(s.settings, server)
	n.introduce(r)

	n.title("1. Without locks")
	without, err := s.race(ctx, false, n.progress())
	for try := 1; err == nil && without.Dangling == 0 && try < mostTries; try++ {
		s.settings.work = max(2*s.settings.work, time.Millisecond)
		s.settings.duration *= 2
		n.result(without)
		n.note("The race has not shown. Once more, with %v of work between look and write, and for %v; the run with locks will be the same.",
			s.settings.work, s.settings.duration)
		without, err = s.race(ctx, false, n.progress())
	}
	if err != nil {
		return r, fmt.Errorf("the run without locks: %w", err)
	}
	n.result(without)

	n.title(`2. With locks: an adder holds "read" on the category, a deleter "write"`)
	with, err := s.race(ctx, true, n.progress())
	if err != nil {
		return r, fmt.Errorf("the run with locks: %w", err)
	}
	n.result(with)

	n.title("3. A late write: an adder is stopped past the end of its lease, and continued")
	r.LateWrite, err = s.play(ctx, n.line)
	if err != nil {
		return r, fmt.Errorf("the late write: %w", err)
	}
	if r.LateWrite.LeftOut != "" {
		n.note("Left out: %s.", r.LateWrite.LeftOut)
	}

	r.Work = s.settings.work.String()
	r.Runs = []result{without, with}
	r.judge()
	n.conclude(r)
	return r, nil
}
