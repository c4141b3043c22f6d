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

func main() {
	cases.Child() // the benchmark runs itself as another process
	var w wishes
	flag.BoolVar(&w.quick, "quick", false, "shorter windows and fewer rounds: under 5 minutes in all")
	flag.StringVar(&w.only, "case", "", "run these cases only, e.g. pair,rmw,hot64, or *-5ms")
	flag.StringVar(&w.latency, "latency", "1ms,5ms", "round trips of the cases over a network; empty for none")
	flag.StringVar(&w.svg, "svg", "../docs/img", "directory for the plots; empty for none")
	flag.StringVar(&w.markdown, "markdown", "", "write the tables into this file, between its marker comments")
	flag.StringVar(&w.redraw, "redraw", "", "measure nothing, and draw the plots again from the tables in this file")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if w.redraw != "" {
		err = redraw(w.redraw, w.svg)
	} else {
		err = runAll(ctx, w)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// wishes are the flags.
type wishes struct {
	quick                        bool
	only, latency, svg, markdown string
	redraw                       string
}

func redraw(markdown, dir string) error {
	tables, err := report.ReadMarkdown(markdown)
	if err != nil {
		return err
	}
	return report.Plot(tables, dir)
}

func runAll(ctx context.Context, w wishes) (err error) {
	latencies, err := servers.ParseLatencies(w.latency)
	if err != nil {
		return err
	}
	chosen, err := cases.Choose(cases.Plan(latencies), w.only)
	if err != nil {
		return err
	}
	r := report.Run{Run: &cases.Run{Latencies: latencies, Quick: w.quick}, Began: time.Now(), Load: servers.Load()}
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
	if w.svg != "" {
		if err := report.Plot(r.Tables(), w.svg); err != nil {
			return err
		}
		r.Say("plots: %s", w.svg)
	}
	if w.markdown != "" {
		return report.WriteMarkdown(w.markdown, r.Setting(), r.Tables())
	}
	return nil
}
