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

With --prefix it does so for all owners whose names begin with a text: --prefix web-3/ is
for all programs of the machine web-3.

It counts them, shows the first ones, and asks. Stop the program first: what it acquires
in the meantime may stay. Its guarded writes are refused from then on; see doclock break.

An OWNER is matched as a whole. It is a text, by default host/pid/program, as ls shows it.
If there is no entry of it, the exit code is 1.`

const releaseOwnerExample = `  doclock release-owner -c shop.orders web-3/4711/api
  doclock release-owner -c shop.orders web-3/4711/api --yes --json
  doclock release-owner -c shop.orders --prefix web-3/   # all of a machine`

func newReleaseOwner(c *cli) *cobra.Command {
	var within, prefix string
	var yes bool
	cmd := &cobra.Command{
		Use: "release-owner [flags] OWNER|--prefix PREFIX", Short: "Remove all entries of one owner",
		Long: releaseOwnerLong, Example: releaseOwnerExample, Args: cobra.MaximumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, args []string) error {
			of := admin.Query{OwnerPrefix: prefix}
			if len(args) > 0 {
				of.Owner = args[0]
			}
			if (of.Owner == "") == (prefix == "") {
				return usage("give one OWNER, as ls shows it, or a --prefix of several, as in --prefix web-3/")
			}
			return c.ofCollection(c.releaseOwner(ctx, of, within, yes))
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "all owners whose names begin with this `TEXT`, such as web-3/")
	cmd.Flags().StringVar(&within, "within", "", "only in the documents that match this `FILTER`, in extended JSON")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	return cmd
}

func (c *cli) releaseOwner(ctx context.Context, of admin.Query, within string, yes bool) error {
	opts, err := withinOption(within)
	if err != nil {
		return err
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		opts = c.adminOptions(opts...)
		if !yes {
			const shown = 10
			rows := newTable(c.err)
			n := 0
			for e, err := range admin.Entries(ctx, coll, of, opts...) {
				switch {
				case errors.Is(err, doclock.ErrForeignLock):
					continue
				case err != nil:
					return err
				}
				if n++; n <= shown {
					_ = rows.add(e)
				}
			}
			_ = rows.flush()
			if n > shown {
				fmt.Fprintf(c.err, "… and %d more\n", n-shown)
			}
			if n == 0 {
				return noneOf(of)
			}
			whose := cell(of.Owner)
			if whose == "" {
				whose = cell(of.OwnerPrefix) + "…"
			}
			if err := c.confirm(ctx, fmt.Sprintf("Remove %s of %s?", counted(n, "entry", "entries"), whose)); err != nil {
				return err
			}
		}
		count, err := admin.Remove(ctx, coll, of, opts...)
		err = c.done(count, err)
		if err == nil && count.Removed == 0 {
			return noneOf(of)
		}
		return err
	})
}

// errNoOwner is the end of a release-owner that found no entry.
var errNoOwner = errors.New("no such owner")

func noneOf(of admin.Query) error {
	if of.Owner == "" {
		return &ending{code: exitFailed, err: fmt.Errorf("%w: no owner with an entry begins with %q", errNoOwner, of.OwnerPrefix)}
	}
	return &ending{code: exitFailed, err: fmt.Errorf("%w: %q has no entry", errNoOwner, of.Owner)}
}

// done prints what was done, also if an error ended it.
func (c *cli) done(n admin.Count, err error) error {
	if err != nil && n == (admin.Count{}) {
		return err
	}
	if c.json {
		return oneline.Join(err, c.printJSON(n))
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
