package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// settings is what the command line can change.
type settings struct {
	json       bool
	duration   time.Duration
	processes  int
	goroutines int
	seed       uint64
	work       time.Duration
}

// oneDeleterIn is the number of goroutines of which one is a deleter.
const oneDeleterIn = 4

func (s settings) deleters() int { return max(1, s.goroutines/oneDeleterIn) }
func (s settings) adders() int   { return s.goroutines - s.deleters() }

const usage = `Usage: go run ./demo [flags]

Adders put categories on the contacts of an address book, while deleters delete
categories, in several processes; first without locks, then with locks. After
each run a full scan counts the dangling references. Then an adder's process is
stopped while it holds a lock, and takes its late write back.

The server is MONGODB_URI, or else a mongod on PATH, a container, or one that the
program installs. The address book is in a database of its own, which is dropped
at the end.

The exit status is 0 if there were dangling references without locks, none with
locks, and none after the late write; 1 if not, or after a failure; 2 if the
flags are wrong.

`

// parse reads the command line. Before it returns an error it prints what is wrong.
func parse(args []string, out io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.BoolVar(&s.json, "json", false, "print the results as JSON")
	flags.DurationVar(&s.duration, "duration", 5*time.Second, "how long each of the two runs takes")
	flags.IntVar(&s.processes, "processes", 2, "number of processes, at least 2")
	flags.IntVar(&s.goroutines, "goroutines", 16, "number of goroutines in each process, at least 2; one in four deletes")
	flags.Uint64Var(&s.seed, "seed", 1, "of the address book, and of the choices of adders and deleters")
	flags.DurationVar(&s.work, "work", 2*time.Millisecond, "what an adder's application does between its look at the category and its write; the same in both runs")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if err := s.validate(flags.Args()); err != nil {
		_, _ = fmt.Fprintf(out, "demo: %v\nSee -h.\n", err)
		return s, err
	}
	return s, nil
}

// validate returns all faults together.
func (s settings) validate(rest []string) error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(len(rest) > 0, "there are no arguments but flags, and %q is none", rest)
	fault(s.duration < 100*time.Millisecond || s.duration > time.Hour, "-duration is %v; give 100ms to 1h", s.duration)
	fault(s.processes < 2 || s.processes > 64, "-processes is %d; give 2 to 64", s.processes)
	fault(s.goroutines < 2 || s.goroutines > 1000, "-goroutines is %d; give 2 to 1000", s.goroutines)
	fault(s.work < 0 || s.work > time.Second, "-work is %v; give 0 to 1s", s.work)
	return errors.Join(faults...)
}
