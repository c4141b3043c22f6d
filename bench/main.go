// Command bench measures doclock beside its rivals, in one run:
//
//	go run -C bench .
//
// Each case runs its subjects in turn, round by round, so that whatever else
// the machine does meets them all, and compares them within a round. Commands
// to the servers are counted where they leave the client. It starts what it
// needs (see servers.go) and says what it could not have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A benchCase is one question. Its answer is a result for each subject.
type benchCase struct {
	name, about string
	run         func(context.Context, *bench) error
}

// cases in the order in which they run.
var cases = []benchCase{
	{"pair", "acquire and release, nobody contends", runPair},
	{"rmw", "read-modify-write of one document, nobody contends", runRMW},
	{"hot4", "4 goroutines read-modify-write one document", hot(4)},
	{"hot64", "64 goroutines read-modify-write one document", hot(64)},
	{"hot1000", "1,000 goroutines read-modify-write one document", hot(1000)},
	{"processes", "4 processes of 16 goroutines read-modify-write one document", runProcesses},
	{"readers", "readers and a few writers (95:5) of one document", runReaders},
	{"handoff", "from a release in one process to the grant in another", runHandoff},
	{"idle", "commands sent while waiting for a lock that nobody releases", runIdle},
	{"growth", "acquire beside many live entries, and on large documents", runGrowth},
	{"held", "many leases held and renewed by one process", runHeld},
	{"takeover", "from the holder's death to the next grant", runTakeover},
}

// bench is one run.
type bench struct {
	servers servers
	quick   bool
	began   time.Time
	took    time.Duration
	load    string // of the machine, before
	results []*result
}

func main() {
	quick := flag.Bool("quick", false, "shorter windows and fewer rounds: under 3 minutes in all")
	asJSON := flag.Bool("json", false, "print one line of JSON per case and subject instead of tables")
	only := flag.String("case", "", "run these cases only, e.g. pair,rmw,hot64")
	svg := flag.String("svg", "../docs/img", "directory for the plots; empty for none")
	markdown := flag.String("markdown", "", "write the tables into this file, between its marker comments")
	child := flag.String("child", "", "") // how the benchmark runs itself as another process
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *child != "" {
		err = runChild(ctx, *child)
	} else {
		err = runAll(ctx, *quick, *asJSON, *only, *svg, *markdown)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runAll(ctx context.Context, quick, asJSON bool, only, svg, markdown string) (err error) {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	b := &bench{quick: quick, began: time.Now(), load: load()}
	stop, err := b.servers.start(ctx, b.say)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	for i, c := range chosen {
		b.say("[%d/%d] %s: %s", i+1, len(chosen), c.name, c.about)
		if err := c.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	b.took = time.Since(b.began)
	r := newReport(b)
	if asJSON {
		err = r.printJSON(os.Stdout)
	} else {
		err = r.print(os.Stdout)
	}
	if err != nil {
		return err
	}
	if svg != "" {
		if err := plots(b, svg); err != nil {
			return err
		}
		b.say("plots: %s", svg)
	}
	if markdown != "" {
		return r.writeMarkdown(markdown)
	}
	return nil
}

func choose(only string) ([]benchCase, error) {
	if only == "" {
		return cases, nil
	}
	var chosen []benchCase
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(cases, func(c benchCase) bool { return c.name == name })
		if i < 0 {
			var names []string
			for _, c := range cases {
				names = append(names, c.name)
			}
			return nil, fmt.Errorf("no case %q; there are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, cases[i])
	}
	return chosen, nil
}

// say tells the progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// pick is the full run's value or the quick one's.
func pick[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}
