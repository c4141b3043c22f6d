package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const releaseOwnerLong = `release-owner removes all entries of one owner, held and waiting, from all documents of a
collection: those of a program that died while its leases were long, or that must not go
on.

It counts them, shows the first ones, and asks. Stop the program first: what it acquires
in the meantime may stay. Its guarded writes are refused from then on; see doclock break.

An owner is a text, by default host/pid/program: give it as ls shows it.`

const releaseOwnerExample = `  doclock release-owner -c shop.orders web-3/4711/api
  doclock release-owner -c shop.orders web-3/4711/api --yes --json`

func newReleaseOwner(c *cli) *cobra.Command {
	var within string
	var yes bool
	cmd := &cobra.Command{
		Use: "release-owner [flags] OWNER", Short: "Remove all entries of one owner",
		Long: releaseOwnerLong, Example: releaseOwnerExample, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, args []string) error {
			return c.ofCollection(c.releaseOwner(ctx, args[0], within, yes))
		}),
	}
	cmd.Flags().StringVar(&within, "within", "", "only in the documents that match this `FILTER`, in extended JSON")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	return cmd
}

func (c *cli) releaseOwner(ctx context.Context, owner, within string, yes bool) error {
	if owner == "" {
		return usage("the OWNER is empty; give one as ls shows it")
	}
	opts, err := withinOption(within)
	if err != nil {
		return err
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		opts = c.adminOptions(opts...)
		if !yes {
			const shown = 10
			rows := newTable(c.err, entryHead...)
			n := 0
			for e, err := range admin.Entries(ctx, coll, admin.Query{Owner: owner}, opts...) {
				switch {
				case errors.Is(err, doclock.ErrForeignLock):
					continue
				case err != nil:
					return err
				}
				if n++; n <= shown {
					_ = rows.add(styleOf(e), entryRow(e)...)
				}
			}
			_ = rows.flush()
			if n > shown {
				fmt.Fprintf(c.err, "… and %d more\n", n-shown)
			}
			if n == 0 {
				return &ending{code: exitFailed, err: fmt.Errorf("%q has no entry; ls shows the owners", owner)}
			}
			if err := c.confirm(ctx, fmt.Sprintf("Remove %s of %s?", counted(n, "entry", "entries"), cell(owner))); err != nil {
				return err
			}
		}
		count, err := admin.ReleaseOwner(ctx, coll, owner, append(opts, admin.Progress(c.progress))...)
		return c.done(count, err)
	})
}

// progress shows on a terminal what was done so far.
func (c *cli) progress(n admin.Count) {
	if !c.json && isTerminal(c.err) {
		fmt.Fprintf(c.err, "\r%d entries removed, %d documents deleted", n.Removed, n.Deleted)
	}
}

// done prints what was done, also if an error ended it.
func (c *cli) done(n admin.Count, err error) error {
	if err != nil && n == (admin.Count{}) {
		return err
	}
	if c.json {
		return oneline.Join(err, c.printJSON(n))
	}
	if isTerminal(c.err) {
		fmt.Fprint(c.err, "\r\x1b[K")
	}
	text := "removed " + counted(int(n.Removed), "entry", "entries")
	if n.Deleted > 0 {
		text += ", deleted " + counted(int(n.Deleted), "document", "documents")
	}
	if n.Foreign > 0 {
		text += fmt.Sprintf("; %s with a lock field that is not doclock's left alone", counted(int(n.Foreign), "document", "documents"))
	}
	_, printErr := fmt.Fprintln(c.out, text)
	return oneline.Join(err, printErr)
}
