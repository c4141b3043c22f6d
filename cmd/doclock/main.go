package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/relations"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func main() {
	code, by := execute(os.Args[1:])
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
	end := &ending{err: err} // unless err is one
	if !errors.As(err, &end) {
		c.json = c.json || wantsJSON(args) // the flags may not have been read so far
	}
	if end.err != nil {
		c.report(err, code)
	}
	return code, end.by
}

// wantsJSON reports whether --json is among the arguments, before those of a command.
func wantsJSON(args []string) bool {
	i := slices.IndexFunc(args, func(arg string) bool { return arg == "--json" || arg == "--" })
	return i >= 0 && args[i] == "--json"
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
	return slices.ContainsFunc([]string{
		"unknown command", "unknown flag", "unknown shorthand", "bad flag syntax", "accepts ", "requires ", "flag needed",
		"invalid argument", "flag needs an argument", "if any flags in the group", "none of the others",
	}, func(begin string) bool { return strings.HasPrefix(err.Error(), begin) })
}

// unauthorized and the next are codes of servers.
const (
	unauthorized         = 13
	authenticationFailed = 18
)

// hints say what to do about an error. The first that fits counts.
var hints = []struct {
	err  error
	hint string
}{
	{errNoServer, "Set MONGODB_URI, as in export MONGODB_URI=mongodb://localhost:27017, or give --uri-file."},
	{doclock.ErrOutcomeUnknown, `"doclock inspect" shows what is there. If that is answered, a transaction may be in the way: docs/operations.md.`},
	{errSilent, "Something accepts connections there and doesn't answer: look at the server. For a slow one give a longer --timeout."},
	{doclock.ErrForeignLock, "doclock leaves such a lock field as it is. If the application uses another field, give --field; a newer version's lock needs a newer doclock."},
	{doclock.ErrUnsupportedServer, `"doclock check" says what this server is and what it can't do.`},
	{errNoCollection, "Check --collection: the names of databases and collections are matched letter by letter."},
	{errNoSuchName, `Check --collection and the NAME (a number's document is '{"_id": 7}'). For a lock of its own leave --collection out, or give --create.`},
	{doclock.ErrNotFound, `Check --collection and the _id's type: A-17 is a string; a number is '{"_id": 7}', an ObjectID '{"$oid": "…"}'.`},
	{errNoOwner, `An OWNER is matched as a whole, letter by letter; --prefix web-3/ takes all that begin so. "doclock ls" shows the owners.`},
	{admin.ErrNoEntry, `It was released, or somebody was granted the lock meanwhile. "doclock inspect" shows who is there now.`},
	{doclock.ErrInvalidArgument, ""},
	{relations.ErrInvalidRules, `"doclock rules --help" shows the form.`},
}

// hintOf says what to do about an error, or nothing.
func hintOf(err error) string {
	var refused mongo.CommandError
	switch {
	case errors.As(err, new(heldError)):
		return `The command was not run. Wait for longer with --wait, or see "doclock inspect".`
	case errors.As(err, &refused) && (refused.HasErrorCode(unauthorized) || refused.HasErrorCode(authenticationFailed)):
		return "Check the user, the password and authSource in the server's URI. docs/production.md has the rights that each command needs."
	}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	switch {
	case mongo.IsTimeout(err) && !unselected(err):
		return `No server answered. If "doclock inspect" is answered, a transaction may be in the way: docs/operations.md.`
	case mongo.IsNetworkError(err), unselected(err):
		return "No server answered. Does it run, and do MONGODB_URI's host and port name it? With TLS, give tls=true in the URI."
	case isCobras(err):
		return "See --help."
	}
	return ""
}

// trimmed is an error's text without the package's name, which the program has
// said.
func trimmed(text string) string { return strings.ReplaceAll(text, "doclock: ", "") }
