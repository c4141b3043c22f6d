package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/term"
)

const watchLong = `watch shows the locks of a collection again and again, the oldest first, as many as the
terminal has lines for. Ctrl-C ends it.

Without a terminal it prints one table after the other, and with --json one object a
round. If the server is gone, or the collection isn't there, it says so, and goes on.

Each round reads what ls reads. A waiter of a cooperative tag leaves no entry, and is not
shown.`

const watchExample = `  doclock watch -c shop.orders
  doclock watch -c shop.orders --older 1m --every 5s
  doclock watch --json | jq '{at, waiting: .count.waiting}'`

func newWatch(c *cli) *cobra.Command {
	var q choice
	var every time.Duration
	var rounds int
	cmd := &cobra.Command{
		Use: "watch [flags]", Short: "Show the locks of a collection again and again",
		Long: watchLong, Example: watchExample, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, _ []string) error { return c.ofCollection(c.watch(ctx, &q, every, rounds)) }),
	}
	q.flags(cmd)
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "the `DURATION` between two rounds, at least 100ms")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "end after this `NUMBER` of rounds (default: never)")
	return cmd
}

func (c *cli) watch(ctx context.Context, q *choice, every time.Duration, rounds int) error {
	if every < 100*time.Millisecond || rounds < 0 {
		return usage("--every is %v and --rounds %d; give at least 100ms and at least 0", every, rounds)
	}
	query, opts, err := q.query()
	if err != nil {
		return err
	}
	coll, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	for round := 1; ; round++ {
		g := glance{At: time.Now().UTC(), Entries: []admin.Entry{}}
		err := c.answered(ctx, coll, func(ctx context.Context, coll *mongo.Collection) error {
			err := g.look(ctx, coll, query, c.lines(), c.adminOptions(opts...))
			if err == nil && g.Count == (tally{}) && c.isUnknown(ctx, coll) {
				err = errNoCollection
			}
			return err
		})
		if ctx.Err() != nil || errors.Is(err, doclock.ErrInvalidArgument) {
			return cmp.Or(ctx.Err(), err)
		}
		if err := c.showGlance(g, err); err != nil {
			return err
		}
		if round == rounds {
			return nil
		}
		if !passed(ctx, every) {
			return ctx.Err()
		}
	}
}

// glance is what one round saw.
type glance struct {
	At      time.Time     `json:"at"` // by this machine's clock
	Count   tally         `json:"count"`
	Entries []admin.Entry `json:"entries"` // the oldest
	Error   string        `json:"error,omitempty"`
}

// look reads the collection once. It keeps no more than n entries.
func (g *glance) look(ctx context.Context, coll *mongo.Collection, query admin.Query, n int, opts []admin.Option) error {
	for e, err := range admin.Entries(ctx, coll, query, opts...) {
		switch {
		case errors.Is(err, doclock.ErrForeignLock):
			g.Count.Foreign++
			continue
		case err != nil:
			return err
		}
		g.Count.add(e)
		at, _ := slices.BinarySearchFunc(g.Entries, e, func(a, b admin.Entry) int {
			if a.Age >= b.Age { // equal ones in the order of their arrival here
				return -1
			}
			return 1
		})
		if at < n {
			g.Entries = slices.Insert(g.Entries[:min(len(g.Entries), n-1)], at, e)
		}
	}
	return nil
}

// lines is the number of entries that a round shows.
func (c *cli) lines() int {
	if f, ok := c.out.(*os.File); ok {
		if _, height, err := term.GetSize(int(f.Fd())); err == nil {
			return max(1, height-6) // the counts, the head, what is left out, two empty lines, the cursor
		}
	}
	return 50
}

func (c *cli) showGlance(g glance, err error) error {
	if err != nil {
		g.Error = withoutURI(err.Error())
	}
	if c.json {
		return c.printJSON(g)
	}
	if isTerminal(c.out) && os.Getenv("TERM") != "dumb" {
		fmt.Fprint(c.out, "\x1b[H\x1b[2J") // clears the screen
	}
	fmt.Fprintf(c.out, "%s  %s  ", withoutURI(c.full()), g.At.Format(time.TimeOnly+"Z"))
	if err != nil {
		_, err := fmt.Fprintf(c.out, "%s\n%s\n\n", oneline.Text(trimmed(g.Error)), hintOf(err))
		return err
	}
	fmt.Fprintf(c.out, "%s\n\n", &g.Count)
	rows := newTable(c.out)
	for _, e := range g.Entries {
		_ = rows.add(e)
	}
	_ = rows.w.Flush()
	if more := g.Count.Held + g.Count.Waiting + g.Count.Expired - len(g.Entries); more > 0 {
		fmt.Fprintf(c.out, "… and %d more, which are younger\n", more)
	}
	_, err = fmt.Fprintln(c.out)
	return err
}
