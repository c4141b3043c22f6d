// Command bench measures doclock beside its rivals, in one run, and prints Go's benchmark format:
//
//	go run -C bench . | tee bench.txt
//	go run golang.org/x/perf/cmd/benchstat@latest -row .name,/subject bench.txt
//
// Each case runs its subjects in turn, round by round, so that the machine's other work affects all of them. A line is
// one round of one subject. Its sec/op is the median of the round's operations, time-over-plain and rate-over-plain
// compare it with the plain command in the same round. Commands are counted when they leave the client.
//
// Its rooms, each of which knows only those above it:
//
//   - servers starts the servers, connects clients to them, and counts what the clients send.
//   - subjects are doclock and its rivals: locks of one document, behind one type.
//   - cases are the questions. Some run subjects in further processes.
//
// This package has the command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/doclock/doclock/bench/cases"
	"golang.org/x/perf/benchfmt"
)

var (
	quick = flag.Bool("quick", false, "shorter windows and fewer rounds: some 2 minutes in all")
	only  = flag.String("case", "", "run these cases only, e.g. pair,rmw,hot64")
)

func main() {
	cases.Child() // the benchmark runs itself as another process
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	chosen, err := cases.Choose(*only)
	if err != nil {
		return err
	}
	began, out := time.Now(), benchfmt.NewWriter(os.Stdout)
	r := &cases.Run{Quick: *quick, Report: func(line *benchfmt.Result) error { return out.Write(line) }}
	r.Say = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	stop, err := r.Servers.Start(ctx, r.Say)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg") // nothing on another system
	setting := func(key, format string, args ...any) {
		r.Setting = append(r.Setting, benchfmt.Config{Key: key, Value: fmt.Appendf(nil, format, args...), File: true})
	}
	setting("date", "%s, quick: %v", began.UTC().Format("2006-01-02 15:04 UTC"), *quick)
	setting("machine", "%d CPUs, %s/%s, %s; load: %.14s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), load)
	for name, about := range r.Servers.About {
		setting(name, "%s", about)
	}
	return r.Run(ctx, chosen)
}
