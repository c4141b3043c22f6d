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
	"syscall"
)

func main() {
	cases := flag.Int("cases", 24_000, "the number of random documents for the commands")
	seed := flag.Uint64("seed", 1, "the seed of the drawn documents and rules")
	only := flag.Int("only", -1, "the number of one case, to be shown in full")
	eager := flag.Bool("eager", false, "evaluate both branches of $cond")
	mutants := flag.Bool("mutants", false, "seed faults into the commands, and check that each is noticed")
	flag.Parse()
	node := []string{"--cases", fmt.Sprint(*cases), "--seed", fmt.Sprint(*seed)}
	if *only >= 0 {
		node = append(node, "--only", fmt.Sprint(*only))
	}
	if *eager {
		node = append(node, "--eager")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *mutants, *seed, node)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "evaluation:", err)
		os.Exit(1)
	}
}

// run compares the commands of the presets and of drawn rules. node are the arguments of main.js.
func run(ctx context.Context, mutants bool, seed uint64, node []string) (err error) {
	e, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, e.server.Close()) }()
	if mutants {
		return e.catchAll(ctx)
	}
	return e.compare(ctx, os.Stdout, []string{"-presets", fmt.Sprint("-seed=", seed)}, node)
}
