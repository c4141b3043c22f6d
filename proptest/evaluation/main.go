// Evaluation compares three evaluations of doclock's commands: a server's,
// mingo's, and one written after MongoDB's sources, in the strictest reading of
// the manual. See README.md.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

type settings struct {
	mutants bool
	engine  []string // arguments of the engine's test that writes the commands
	node    []string // arguments of main.js
}

func parse() settings {
	cases := flag.Int("cases", 24_000, "the number of random documents for the commands")
	seed := flag.Uint64("seed", 1, "the seed of the drawn documents and rules")
	only := flag.Int("only", -1, "the number of one case, to be shown in full")
	rules := flag.Int("rules", 6, "the number of drawn rules, besides those of the presets")
	eager := flag.Bool("eager", false, "evaluate both branches of $cond")
	mutants := flag.Bool("mutants", false, "seed faults into the commands, and check that each is noticed")
	flag.Parse()
	s := settings{
		mutants: *mutants,
		engine:  []string{"-presets", fmt.Sprint("-rules=", *rules), fmt.Sprint("-seed=", *seed)},
		node:    []string{"--cases", strconv.Itoa(*cases), "--seed", strconv.FormatUint(*seed, 10)},
	}
	if *only >= 0 {
		s.node = append(s.node, "--only", strconv.Itoa(*only))
	}
	if *eager {
		s.node = append(s.node, "--eager")
	}
	return s
}

func main() {
	s := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "evaluation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	e, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, e.server.Close()) }()
	if s.mutants {
		return e.catchAll(ctx)
	}
	written, err := e.write(ctx, s.engine)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(written)) }()
	return e.compare(ctx, os.Stdout, s.node, written)
}
