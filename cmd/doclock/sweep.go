package main

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const sweepLong = `sweep removes the expired entries of a collection. Each grant removes those of its
document; so sweep is for documents that nobody locks any more, and for people who read
the lock field.

With --delete-idle it also deletes documents that hold nothing but a lock, and in which
nothing was granted for that long: old named locks, as "doclock run NAME" leaves one for
each name. A document with any other field stays. Named locks come back when they are next
used, and their fencing tokens go on increasing.

It is safe beside running programs, and asks nothing. A collection that isn't there is an
error, unless it is doclock.locks.`

const sweepExample = `  doclock sweep -c shop.orders
  doclock sweep --delete-idle 720h --json      # in a crontab`

func newSweep(c *cli) *cobra.Command {
	var within string
	var idle time.Duration
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use: "sweep [flags]", Short: "Remove what has expired",
		Long: sweepLong, Example: sweepExample, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, _ []string) error {
			return c.ofCollection(c.sweep(ctx, within, idle, cmd.Flags().Changed("delete-idle")))
		}),
	}
	cmd.Flags().StringVar(&within, "within", "", "only documents that match this `FILTER`")
	cmd.Flags().DurationVar(&idle, "delete-idle", 0, "delete documents with nothing but a lock that were idle for this `DURATION`, at least 1h")
	return cmd
}

func (c *cli) sweep(ctx context.Context, within string, idle time.Duration, deletes bool) error {
	opts, err := withinOption(within)
	if err != nil {
		return err
	}
	if deletes {
		opts = append(opts, admin.DeleteIdle(idle))
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		count, err := admin.Sweep(ctx, coll, c.adminOptions(opts...)...)
		if err == nil && count == (admin.Count{}) && c.isUnknown(ctx, coll) {
			err = errNoCollection
		}
		return c.done(count, err)
	})
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
