// Command bench measures doclock beside its rivals, in one run:
//
//	go run -C bench .
//
// Each case runs its subjects in turn, round by round, so that the machine's
// other work affects all of them, and compares them within a round. Some cases
// run again over a network, which the dialers of the clients make (see
// network.go). Commands to the servers are counted when they leave the client.
// The program starts the servers that it needs (see servers.go) and reports the
// missing ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A benchCase is one question. Its answer is a result for each subject.
type benchCase struct {
	name, about string
	run         func(context.Context, *bench) error
	columns     []string // of its extra values, those that its table has a column for
	over        *network // between the clients and the servers; nil for none
}

// cases in the order in which they run, without a network.
var cases = []benchCase{
	{"pair", "acquire and release, nobody contends", runPair, nil, nil},
	{"rmw", "read-modify-write of one document, nobody contends", runRMW, nil, nil},
	{"commands", "what one command costs, beside plain ones on the same document", runCommands, priceColumns, nil},
	{"hot4", "4 goroutines read-modify-write one document", hot(4), nil, nil},
	{"hot64", "64 goroutines read-modify-write one document", hot(64), nil, nil},
	{"hot1000", "1,000 goroutines read-modify-write one document", hot(1000), nil, nil},
	{"processes", "4 processes of 16 goroutines read-modify-write one document", runProcesses, nil, nil},
	{"readers", "readers and a few writers (95:5) of one document", runReaders, nil, nil},
	{"handoff", "from a release in one process to the grant in another", runHandoff, nil, nil},
	{"claim", "workers in 4 processes claim the documents of a queue by priority", runClaim, claimColumns, nil},
	{"idle", "commands sent while waiting for a lock that nobody releases", runIdle, nil, nil},
	{"growth", "acquire beside many live entries, and on large documents", runGrowth, nil, nil},
	{"held", "many leases held and renewed by one process", runHeld, nil, nil},
	{"takeover", "from the holder's death to the next grant", runTakeover, nil, nil},
}

// plan is all cases: those without a network, what the network itself costs, and
// some of the first again over each latency.
func plan(latencies []time.Duration) []benchCase {
	all := slices.Clone(cases)
	if len(latencies) > 0 {
		all = append(all, benchCase{"network", "what the network of the following cases adds", roundTrips(latencies), roundTripColumns, nil})
	}
	for _, d := range latencies {
		for _, c := range cases {
			if slices.Contains([]string{"pair", "rmw", "hot64", "handoff", "claim"}, c.name) {
				c.name, c.about, c.over = onNetwork(c.name, d), fmt.Sprintf("%s; a round trip takes %v more", c.about, d), &network{d}
				all = append(all, c)
			}
		}
	}
	return all
}

// onNetwork is the name of a case over a latency.
func onNetwork(kase string, d time.Duration) string { return kase + "-" + d.String() }

// bench is one run.
type bench struct {
	servers   servers
	latencies []time.Duration
	quick     bool
	now       benchCase // the one that runs
	began     time.Time
	took      time.Duration
	load      string // of the machine, before the run
	results   []*result
}

func main() {
	var w wishes
	flag.BoolVar(&w.quick, "quick", false, "shorter windows and fewer rounds: under 5 minutes in all")
	flag.BoolVar(&w.json, "json", false, "print one line of JSON per case and subject instead of tables")
	flag.StringVar(&w.only, "case", "", "run these cases only, e.g. pair,rmw,hot64, or *-5ms")
	flag.StringVar(&w.latency, "latency", "1ms,5ms", "round trips of the cases over a network; empty for none")
	flag.StringVar(&w.svg, "svg", "../docs/img", "directory for the plots; empty for none")
	flag.StringVar(&w.markdown, "markdown", "", "write the tables into this file, between its marker comments")
	flag.StringVar(&w.profiles.cpu, "cpuprofile", "", "write a processor profile of the cases into this file")
	flag.StringVar(&w.profiles.memory, "memprofile", "", "write a profile of all that they allocated into this file")
	child := flag.String("child", "", "") // the benchmark runs itself as another process
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *child != "" {
		err = runChild(ctx, *child)
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
	quick, json                  bool
	only, latency, svg, markdown string
	profiles                     profiles
}

func runAll(ctx context.Context, w wishes) (err error) {
	latencies, err := parseLatencies(w.latency)
	if err != nil {
		return err
	}
	chosen, err := choose(plan(latencies), w.only)
	if err != nil {
		return err
	}
	b := &bench{latencies: latencies, quick: w.quick, began: time.Now(), load: load()}
	stop, err := b.servers.start(ctx, b.say)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	failed := w.profiles.during(func() error { return b.run(ctx, chosen) })
	defer func() { err = errors.Join(failed, err) }()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.took = time.Since(b.began)
	r := newReport(b)
	if w.json {
		err = r.printJSON(os.Stdout)
	} else {
		err = r.print(os.Stdout)
	}
	if err != nil {
		return err
	}
	if w.svg != "" {
		if err := plots(b, w.svg); err != nil {
			return err
		}
		b.say("plots: %s", w.svg)
	}
	if w.markdown != "" {
		return r.writeMarkdown(w.markdown)
	}
	return nil
}

// run runs the cases. One that fails doesn't keep the next ones from running, and
// the report has what it had measured until then.
func (b *bench) run(ctx context.Context, chosen []benchCase) error {
	var failed []error
	for i, c := range chosen {
		if ctx.Err() != nil {
			break
		}
		b.say("[%d/%d] %s: %s", i+1, len(chosen), c.name, c.about)
		b.now, b.servers.Network = c, c.over
		if err := c.run(ctx, b); err != nil {
			b.say("  FAILED: %v", err)
			failed = append(failed, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	b.servers.Network = nil
	return errors.Join(failed...)
}

// choose keeps the cases whose names match one of the patterns, in the order of
// the patterns.
func choose(all []benchCase, patterns string) (chosen []benchCase, err error) {
	if patterns == "" {
		return all, nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	for pattern := range strings.SplitSeq(patterns, ",") {
		found := false
		for _, c := range all {
			matches, err := path.Match(pattern, c.name)
			if err != nil {
				return nil, fmt.Errorf("case %q: %w", pattern, err)
			}
			if !matches {
				continue
			}
			found = true
			if !slices.ContainsFunc(chosen, func(earlier benchCase) bool { return earlier.name == c.name }) {
				chosen = append(chosen, c)
			}
		}
		if !found {
			return nil, fmt.Errorf("no case %q; there are %s", pattern, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// say prints the progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// pick returns the full run's value or the quick one's.
func pick[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}
