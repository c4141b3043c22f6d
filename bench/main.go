// Command bench measures doclock beside its rivals, in one run:
//
//	go run -C bench .
//
// Each case runs its subjects in turn, round by round, so that the machine's
// other work affects all of them, and compares them within a round. Commands to
// the servers are counted when they leave the client. The program starts the
// servers that it needs (see servers.go) and reports the missing ones.
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
	columns     []string // of its extra values, those that its table has a column for
}

// cases in the order in which they run.
var cases = []benchCase{
	{"pair", "acquire and release, nobody contends", runPair, nil},
	{"rmw", "read-modify-write of one document, nobody contends", runRMW, nil},
	{"commands", "what one command costs, beside plain ones on the same document", runCommands, priceColumns},
	{"hot4", "4 goroutines read-modify-write one document", hot(4), nil},
	{"hot64", "64 goroutines read-modify-write one document", hot(64), nil},
	{"hot1000", "1,000 goroutines read-modify-write one document", hot(1000), nil},
	{"processes", "4 processes of 16 goroutines read-modify-write one document", runProcesses, nil},
	{"readers", "readers and a few writers (95:5) of one document", runReaders, nil},
	{"handoff", "from a release in one process to the grant in another", runHandoff, nil},
	{"idle", "commands sent while waiting for a lock that nobody releases", runIdle, nil},
	{"growth", "acquire beside many live entries, and on large documents", runGrowth, nil},
	{"held", "many leases held and renewed by one process", runHeld, nil},
	{"takeover", "from the holder's death to the next grant", runTakeover, nil},
}

// bench is one run.
type bench struct {
	servers servers
	quick   bool
	began   time.Time
	took    time.Duration
	load    string // of the machine, before the run
	results []*result
}

func main() {
	var w wishes
	flag.BoolVar(&w.quick, "quick", false, "shorter windows and fewer rounds: under 3 minutes in all")
	flag.BoolVar(&w.json, "json", false, "print one line of JSON per case and subject instead of tables")
	flag.StringVar(&w.only, "case", "", "run these cases only, e.g. pair,rmw,hot64")
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
	quick, json         bool
	only, svg, markdown string
	profiles            profiles
}

func runAll(ctx context.Context, w wishes) (err error) {
	chosen, err := choose(w.only)
	if err != nil {
		return err
	}
	b := &bench{quick: w.quick, began: time.Now(), load: load()}
	stop, err := b.servers.start(ctx, b.say)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	if err := w.profiles.during(func() error { return b.run(ctx, chosen) }); err != nil {
		return err
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

func (b *bench) run(ctx context.Context, chosen []benchCase) error {
	for i, c := range chosen {
		b.say("[%d/%d] %s: %s", i+1, len(chosen), c.name, c.about)
		if err := c.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
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
