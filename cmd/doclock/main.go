package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/doclock/doclock"
	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs one subcommand and returns the exit code.
func execute(args []string) int {
	c := &cli{out: os.Stdout, err: os.Stderr}
	root := newRoot(c)
	root.SetArgs(args)
	ran, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	code := exitCodeOf(err, ran)
	var end *ending
	if !errors.As(err, &end) || end.err != nil {
		c.report(err, code)
	}
	return code
}

// The exit codes of all subcommands but run, which has its own.
const (
	exitFailed = 1
	exitUsage  = 2
)

// ending is how a subcommand ends if it doesn't end with 0: an exit code, and
// what went wrong, or nil if nothing is to be said.
type ending struct {
	code int
	err  error
}

func (e *ending) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *ending) Unwrap() error { return e.err }

// usage is the end of a call that can't be meant.
func usage(format string, args ...any) error {
	return &ending{exitUsage, fmt.Errorf(format, args...)}
}

func exitCodeOf(err error, ran *cobra.Command) int {
	isRun := ran != nil && ran.Name() == "run"
	var end *ending
	switch {
	case isRun && !errors.As(err, &end), isRun && end.code == exitUsage && end.err != nil: // without one it is the command's own
		return exitNotRun
	case errors.As(err, &end):
		return end.code
	case isCobras(err), errors.Is(err, doclock.ErrInvalidArgument):
		return exitUsage
	default:
		return exitFailed
	}
}

// isCobras tells errors in the arguments, which cobra gives no type.
func isCobras(err error) bool {
	for _, begin := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "flag needed", "invalid argument", "flag needs an argument", "if any flags in the group", "none of the others"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}
