package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
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

Without a NAME, --owner removes the entries of one owner, held and waiting, from all
documents of the collection: those of a program that died while its leases were long, or
that must not go on. --prefix does so for all owners whose names begin with a text: web-3/
is for all programs of the machine web-3. --older and --within choose among these entries.
break counts them, shows the first ones, and asks. What the program acquires in the meantime
may stay. An OWNER is matched as a whole; it is a text, by default host/pid/program, as ls
shows it.

The exit code is 1 if there is no such entry. Break is for a holder that lives and won't
let go. A dead holder's entry ends by itself.`

const breakExample = `  doclock break -c shop.orders A-17
  doclock break -c shop.orders A-17 --id f0ef0793-0c2c-4d0a-8c1b-6f1d2a3b4c5d --yes
  doclock break -c book.categories friends --tag read --all
  doclock break -c shop.orders --owner web-3/4711/api
  doclock break -c shop.orders --prefix web-3/ --older 1h   # all of a machine`

// broken is what break removes: of one document, or of a collection.
type broken struct {
	id, tag, owner string
	all, yes       bool

	prefix, within string
	older          time.Duration
}

func newBreak(c *cli) *cobra.Command {
	var b broken
	cmd := &cobra.Command{
		Use: "break [flags] NAME|FILTER|--owner OWNER|--prefix PREFIX", Short: "Remove entries of a document's lock, or of an owner",
		Long: breakLong, Example: breakExample, Args: cobra.MaximumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, args []string) error {
			switch {
			case len(args) == 1 && (b.prefix != "" || b.within != "" || b.older != 0):
				return usage("--prefix, --within and --older are for all documents; give no NAME with them")
			case len(args) == 1:
				return c.ofCollection(c.breakLock(ctx, args[0], b))
			case b.owner == "" && b.prefix == "":
				return usage("give one NAME or FILTER, or --owner or --prefix for all documents")
			case b.id != "" || b.all:
				return usage("--id and --all are for one document; give its NAME with them")
			}
			return c.ofCollection(c.breakOwner(ctx, b))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&b.id, "id", "", "only the entry of this `ID`")
	f.StringVar(&b.tag, "tag", "", "only entries under this `TAG`")
	f.StringVar(&b.owner, "owner", "", "only entries of this `OWNER`")
	f.BoolVar(&b.all, "all", false, "remove all that match")
	f.StringVar(&b.prefix, "prefix", "", "only owners that begin with this `TEXT`, as web-3/")
	f.DurationVar(&b.older, "older", 0, "only entries older than this `DURATION`, as 2h")
	f.StringVar(&b.within, "within", "", "only documents that match this `FILTER`")
	f.BoolVarP(&b.yes, "yes", "y", false, "don't ask")
	cmd.MarkFlagsMutuallyExclusive("owner", "prefix")
	return cmd
}

func (c *cli) breakLock(ctx context.Context, arg string, b broken) error {
	t, err := parseTarget(arg)
	if err != nil {
		return err
	}
	id, err := uuid.Parse(b.id)
	if b.id != "" && err != nil {
		return usage("--id is %q, which is no id; inspect shows them", b.id)
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		lock, err := admin.Inspect(ctx, coll, t.filter, c.adminOptions()...)
		if err != nil {
			return fmt.Errorf("%s: %w", t.text, err)
		}
		chosen := slices.DeleteFunc(lock.Entries, func(e admin.Entry) bool {
			return b.id != "" && e.ID != id || b.tag != "" && e.Tag != b.tag || b.owner != "" && e.Owner != b.owner
		})
		if !c.json || !b.yes {
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
				failed = append(failed, fmt.Errorf("entry %s: another program than doclock has written it; remove it from the document's field "+
					"%s.tags by mongosh: %s", e.ID, c.field, err.Error())) // the arguments of this call are right
			case err != nil:
				failed = append(failed, fmt.Errorf("entry %s: %w", e.ID, err))
			case c.json:
				failed = append(failed, c.printJSON(gone))
			default:
				_, err := fmt.Fprintln(c.out, oneline.Text(fmt.Sprintf("removed %q of %s, id %s", gone.Tag, cmp.Or(gone.Owner, "nobody known"), gone.ID)))
				failed = append(failed, err)
			}
		}
		return oneline.Join(failed...)
	})
}

// showChosen shows on stderr what will be removed.
func (c *cli) showChosen(chosen []admin.Entry) {
	var longest time.Duration
	then := "at once"
	for _, e := range chosen {
		fmt.Fprint(c.err, entryText(e, chosen))
		if e.State == admin.Held {
			longest = max(longest, e.Remaining)
		}
		if e.HasTransactions {
			then = "once its transactions have ended, which this waits for"
		}
	}
	if longest > 0 {
		fmt.Fprintf(c.err, "Others are let in %s. The holder may go on for up to %s, until it notices.\n", then, short(longest))
	}
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// breakOwner removes the entries of owners from all documents.
func (c *cli) breakOwner(ctx context.Context, b broken) error {
	opts, err := withinOption(b.within)
	if err != nil {
		return err
	}
	query := admin.Query{Owner: b.owner, OwnerPrefix: b.prefix, OlderThan: b.older}
	if b.tag != "" {
		query.Tags = []string{b.tag}
	}
	none := &ending{code: exitFailed, err: fmt.Errorf("%w: %q has no such entry", errNoOwner, b.owner)}
	if b.owner == "" {
		none.err = fmt.Errorf("%w: no owner with such an entry begins with %q", errNoOwner, b.prefix)
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		opts := c.adminOptions(opts...)
		if c.isUnknown(ctx, coll) {
			return errNoCollection
		}
		if !b.yes {
			n, err := c.showFirst(admin.Entries(ctx, coll, query, opts...))
			switch {
			case err != nil:
				return err
			case n == 0:
				return none
			}
			whose := cmp.Or(b.owner, b.prefix+"…")
			if err := c.confirm(ctx, oneline.Text(fmt.Sprintf("Remove %s of %s?", counted(n, "entry", "entries"), whose))); err != nil {
				return err
			}
		}
		count, err := admin.Remove(ctx, coll, query, opts...)
		err = c.done(count, err)
		if err == nil && count.Removed == 0 {
			return none
		}
		return err
	})
}

// errNoOwner is the end of a break that found no entry of an owner.
var errNoOwner = errors.New("no such owner")

// showFirst shows the first entries on stderr, and counts all.
func (c *cli) showFirst(entries iter.Seq2[admin.Entry, error]) (n int, err error) {
	const shown = 10
	rows := newTable(c.err)
	for e, err := range entries {
		switch {
		case errors.Is(err, doclock.ErrForeignLock):
			continue
		case err != nil:
			return n, err
		}
		if n++; n <= shown {
			_ = rows.add(e)
		}
	}
	_ = rows.w.Flush()
	if n > shown {
		fmt.Fprintf(c.err, "… and %d more\n", n-shown)
	}
	return n, nil
}

// confirm asks a question on the terminal. Without a terminal it refuses: a
// script says --yes. It returns an error if the answer isn't yes.
func (c *cli) confirm(ctx context.Context, question string) error {
	switch {
	case !isTerminal(os.Stdin):
		return usage("stdin is not a terminal, so nobody can be asked; give --yes, and --id to spare a later holder")
	case !isTerminal(c.err):
		return usage("stderr is not a terminal, so nobody sees the question; give --yes, and --id to spare a later holder")
	}
	fmt.Fprintf(c.err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // a read can't be cancelled; it ends with the process
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // of an error "", or what was typed before it
		answers <- answer
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(c.err)
	}
	return &ending{code: exitFailed, err: errors.New("nothing was removed")}
}
