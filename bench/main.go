package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/doclock/doclock/bench/cases"
	"github.com/doclock/doclock/bench/report"
	"github.com/doclock/doclock/bench/servers"
)

var (
	quick    = flag.Bool("quick", false, "shorter windows and fewer rounds: under 5 minutes in all")
	only     = flag.String("case", "", "run these cases only, e.g. pair,rmw,hot64, or *-5ms")
	svg      = flag.String("svg", "../docs/img", "directory for the plots; empty for none")
	markdown = flag.String("markdown", "", "write the tables into this file, between its marker comments")
	redraw   = flag.String("redraw", "", "measure nothing, and draw the plots again from the tables in this file")
)

func main() {
	cases.Child() // the benchmark runs itself as another process
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := runAll
	if *redraw != "" {
		run = drawAgain
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func drawAgain(context.Context) error {
	tables, err := report.ReadMarkdown(*redraw)
	if err != nil {
		return err
	}
	return report.Plot(tables, *svg)
}

func runAll(ctx context.Context) (err error) {
	chosen, err := cases.Choose(cases.Plan(), *only)
	if err != nil {
		return err
	}
	r := report.Run{Run: &cases.Run{Quick: *quick}, Began: time.Now(), Load: servers.Load()}
	r.Say = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(r.Began).Seconds(), fmt.Sprintf(format, args...))
	}
	stop, err := r.Servers.Start(ctx, r.Say)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	failed := r.Run.Run(ctx, chosen)
	defer func() { err = errors.Join(failed, err) }()
	if ctx.Err() != nil {
		return nil
	}
	r.Took = time.Since(r.Began)
	if err := r.Print(os.Stdout); err != nil {
		return err
	}
	if *svg != "" {
		if err := report.Plot(r.Tables(), *svg); err != nil {
			return err
		}
		r.Say("plots: %s", *svg)
	}
	if *markdown != "" {
		return report.WriteMarkdown(*markdown, r.Setting(), r.Tables())
	}
	return nil
}
