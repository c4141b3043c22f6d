package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const breakLong = `break removes entries of one document's lock: it shows them, asks, and removes exactly
these. An entry that was granted or resumed in the meantime is another one, and stays.

From then on the server refuses the holder's guarded writes, and others are granted the
lock. The holder itself learns it from its next command or renewal, at most a TTL later.
Until then it may go on with work that has no guard: stop the program first if you can.

If several entries match, give --all, or choose one by --id (inspect shows the ids), --tag
or --owner. Without a terminal give --yes.

Break is for a holder that lives and won't let go. A dead holder's entry ends by itself.`

const breakExample = `  doclock break -c shop.orders A-17
  doclock break -c shop.orders A-17 --id f0ef0793-0c2c-4d0a-8c1b-6f1d2a3b4c5d --yes
  doclock break -c book.categories friends --tag read --all`

// broken is what break removes.
type broken struct {
	id, tag, owner string
	all, yes       bool
}

func newBreak(c *cli) *cobra.Command {
	var b broken
	cmd := &cobra.Command{
		Use: "break [flags] NAME|FILTER", Short: "Remove entries of one document's lock",
		Long: breakLong, Example: breakExample, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, args []string) error { return c.ofCollection(c.breakLock(ctx, args[0], b)) }),
	}
	f := cmd.Flags()
	f.StringVar(&b.id, "id", "", "only the entry with this `ID`")
	f.StringVar(&b.tag, "tag", "", "only the entries under this `TAG`")
	f.StringVar(&b.owner, "owner", "", "only the entries of this `OWNER`")
	f.BoolVar(&b.all, "all", false, "remove all that match, if there are several")
	f.BoolVarP(&b.yes, "yes", "y", false, "don't ask")
	return cmd
}

func (c *cli) breakLock(ctx context.Context, arg string, b broken) error {
	t, err := parseTarget(arg)
	if err != nil {
		return err
	}
	if b.id != "" {
		if _, err := uuid.Parse(b.id); err != nil {
			return usage("--id is %q, which is no id; inspect shows them", b.id)
		}
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		lock, err := admin.Inspect(ctx, coll, t.filter, c.adminOptions()...)
		if err != nil {
			return fmt.Errorf("%s: %w", t.text, err)
		}
		chosen := b.choose(lock.Entries)
		if !c.json {
			c.showChosen(chosen)
		}
		switch {
		case len(chosen) == 0:
			return &ending{code: exitFailed, err: fmt.Errorf("%s has no such entry; nothing was removed", t.text)}
		case len(chosen) > 1 && !b.all:
			return usage("%d entries match; give --all, or choose one with --id", len(chosen))
		}
		if !b.yes {
			if err := c.confirm(ctx, fmt.Sprintf("Remove %s?", counted(len(chosen), "entry", "entries"))); err != nil {
				return err
			}
		}
		var failed []error
		for _, e := range chosen {
			gone, err := admin.Break(ctx, coll, e, c.adminOptions()...)
			switch {
			case errors.Is(err, doclock.ErrInvalidArgument):
				failed = append(failed, fmt.Errorf("entry %s: another program than doclock has written it; remove it from the document's field %s.tags by mongosh: %v", e.ID, c.field, err))
			case err != nil:
				failed = append(failed, fmt.Errorf("entry %s: %w", e.ID, err))
			case c.json:
				failed = append(failed, c.printJSON(gone))
			default:
				_, err := fmt.Fprintln(c.out, cell(fmt.Sprintf("removed %q of %s, id %s", gone.Tag, cmp.Or(gone.Owner, "nobody known"), gone.ID)))
				failed = append(failed, err)
			}
		}
		return oneline.Join(failed...)
	})
}

func (b broken) choose(entries []admin.Entry) (chosen []admin.Entry) {
	for _, e := range entries {
		if (b.id == "" || strings.EqualFold(e.ID.String(), b.id)) && (b.tag == "" || e.Tag == b.tag) && (b.owner == "" || e.Owner == b.owner) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// showChosen shows on stderr what will be removed.
func (c *cli) showChosen(chosen []admin.Entry) {
	var longest time.Duration
	for _, e := range chosen {
		fmt.Fprint(c.err, entryText(e, chosen))
		if e.State == admin.Held {
			longest = max(longest, e.Remaining)
		}
	}
	if longest > 0 {
		fmt.Fprintf(c.err, "Others are let in at once. The holder may go on for up to %s, until it notices.\n", short(longest))
	}
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
