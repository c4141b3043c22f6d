package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// cli is what all subcommands share: where they write, and the flags that they
// all have.
type cli struct {
	out, err io.Writer
	json     bool
	timeout  time.Duration

	uri, uriFile, collection, field string
	shardKey                        []string
}

const rootLong = `doclock shows and removes the locks of a MongoDB collection, and runs a command while it
holds one.

The server comes from DOCLOCK_URI or MONGODB_URI in the environment, or from a file
(--uri-file). A URI with a password is refused as an argument, because ps shows arguments
to everybody. Nothing of a URI is printed but its hosts, and these only if it can be used.

The collection is that of --collection, or of DOCLOCK_COLLECTION in the environment, or
doclock.locks: a collection of named locks, which "doclock run NAME" makes.

NAME is the _id of a document, as a string. FILTER is MongoDB's extended JSON: a filter
such as '{"_id": 7}', or an _id alone such as '{"$oid": "665f1f77bcf86cd799439011"}'. What
ls shows in its first column can be pasted as either.

Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 ended by Ctrl-C, 143 by a TERM. The
codes of run are its own: see doclock run --help.

With --json the output is JSON, one object for each line, and errors are JSON on stderr:
{"error", "hint", "exit"}.`

const rootExample = `  export MONGODB_URI=mongodb://localhost:27017
  doclock run nightly -- ./backup.sh        # one at a time, on all machines
  doclock ls -c shop.orders --older 1h      # which documents are locked?
  doclock inspect -c shop.orders A-17       # who holds this one?
  doclock break -c shop.orders A-17         # shows it, asks, removes it`

func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:               "doclock",
		Short:             "Locks in MongoDB documents: hold, see, and remove them",
		Long:              rootLong,
		Example:           rootExample,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           version(),
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noneEmpty(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(c.out)
	root.SetErr(c.err)
	f := root.PersistentFlags()
	f.StringVarP(&c.collection, "collection", "c", "", "the `DB.COLLECTION` (default $DOCLOCK_COLLECTION, or doclock.locks)")
	f.StringVar(&c.uri, "uri", "", "the server's `URI`, without a password (default $DOCLOCK_URI, or $MONGODB_URI)")
	f.StringVar(&c.uriFile, "uri-file", "", "a `FILE` with the URI, which may have a password")
	f.StringVar(&c.field, "field", "lock", "the `NAME` of the lock's field")
	f.StringSliceVar(&c.shardKey, "shard-key", nil, "the `FIELDS` of a sharded collection's key")
	f.DurationVar(&c.timeout, "timeout", patience, "give up if the server answers no ping for this `DURATION` (a change may take 30s); in run: without the first answer, 30s at most and by default")
	f.BoolVar(&c.json, "json", false, "print JSON")
	root.AddCommand(newRun(c), newLs(c), newInspect(c), newWatch(c), newBreak(c), newSweep(c), newIndex(c), newRules(c), newCheck(c))
	return root
}

// noneEmpty refuses flags that are given as "", as by a shell's variable that isn't
// set: without the flag, more may match than is meant.
func noneEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if text := f.Value.String(); text == "" || text == "[]" {
			err = usage("--%s is empty; give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// released is the version of a released binary, whose build says it. See .goreleaser.yaml.
var released string

// version is that of the module, as far as the build knows it.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// action is a subcommand's work, under a context that ends with Ctrl-C or a
// SIGTERM. What doesn't end by it, as a read of stdin, is left a moment later.
func action(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		signals, ignore := notified(os.Interrupt, syscall.SIGTERM)
		defer ignore()
		ctx, stop := untilSignal(context.Background(), signals, 0)
		ended := make(chan error, 2)
		go func() { ended <- work(ctx, args) }()
		context.AfterFunc(ctx, func() { // by a signal
			time.AfterFunc(3*time.Second, func() { ended <- ctx.Err() })
		})
		err := <-ended
		if s := stop(); s != nil && err != nil {
			return interrupted(s)
		}
		return err
	}
}

// printJSON prints one value on one line.
func (c *cli) printJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, oneline.Text(string(text)))
	return err
}

// report says on stderr what went wrong and what to do.
func (c *cli) report(err error, code int) {
	text := withoutURI(err.Error())
	hint := hintOf(err)
	if c.json {
		line, _ := json.Marshal(struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
			Exit  int    `json:"exit"`
		}{text, hint, code})
		fmt.Fprintln(c.err, oneline.Text(string(line)))
		return
	}
	fmt.Fprintln(c.err, "doclock:", oneline.Text(trimmed(text)))
	if hint != "" {
		fmt.Fprintln(c.err, "  "+hint)
	}
}
