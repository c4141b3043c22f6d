package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/doclock/doclock"
	"github.com/spf13/cobra"
)

func main() { leave(execute(os.Args[1:])) }

// leave ends this process as execute says.
func leave(code int, by os.Signal) {
	if by == os.Interrupt {
		dieOf(by)
	}
	os.Exit(code)
}

// execute runs one subcommand, and returns the exit code, and the signal that
// ended it or its command, if one did. A shell goes on with a loop or a script
// after a Ctrl-C, unless the program that it waits for dies of the signal.
func execute(args []string) (code int, by os.Signal) {
	c := &cli{out: os.Stdout, err: os.Stderr}
	root := newRoot(c)
	root.SetArgs(args)
	ran, err := root.ExecuteC()
	if err == nil {
		return 0, nil
	}
	code = exitCodeOf(err, ran)
	var end *ending
	if !errors.As(err, &end) {
		c.json = c.json || wantsJSON(args) // the flags may not have been read so far
		c.report(err, code)
		return code, nil
	}
	if end.err != nil {
		c.report(err, code)
	}
	return code, end.by
}

// wantsJSON reports whether --json is among the arguments.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		if arg == "--json" || arg == "--" {
			return arg == "--json"
		}
	}
	return false
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
	by   os.Signal // that ended it, or nil
}

// interrupted is the end by a signal.
func interrupted(s os.Signal) error { return &ending{code: signalled(s), by: s} }

func (e *ending) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *ending) Unwrap() error { return e.err }

// usage is the end of a call that can't be meant.
func usage(format string, args ...any) error {
	return &ending{code: exitUsage, err: fmt.Errorf(format, args...)}
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
	for _, begin := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "flag needed",
		"invalid argument", "flag needs an argument", "if any flags in the group", "none of the others"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}
