package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/term"
)

const watchLong = `watch shows the locks of a collection again and again, the oldest first, as many as the
terminal has lines for. Ctrl-C ends it.

Without a terminal it prints one table after the other, and with --json one object a
round. If the server is gone it says so, and goes on.

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
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "the `DURATION` from one round to the next, at least 100ms")
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
	s := newScreen(c)
	defer s.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for round := 1; ; round++ {
		var seen glance
		err := c.answered(ctx, coll, func(ctx context.Context, coll *mongo.Collection) (err error) {
			seen, err = c.look(ctx, coll, query, s.rows(), c.adminOptions(opts...))
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, doclock.ErrInvalidArgument):
			return err
		}
		seen.every, seen.err = every, err
		if err := s.show(seen); err != nil {
			return err
		}
		if round == rounds {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// glance is what one round saw.
type glance struct {
	at     time.Time // by this machine's clock
	count  tally
	oldest []admin.Entry // the oldest entries, as many as were asked for
	every  time.Duration
	err    error
}

// look reads the collection once. It keeps no more than n entries.
func (c *cli) look(ctx context.Context, coll *mongo.Collection, query admin.Query, n int, opts []admin.Option) (glance, error) {
	g := glance{at: time.Now().UTC()}
	for e, err := range admin.Entries(ctx, coll, query, opts...) {
		switch {
		case errors.Is(err, doclock.ErrForeignLock):
			g.count.Foreign++
			continue
		case err != nil:
			return g, err
		}
		g.count.add(e)
		at, _ := slices.BinarySearchFunc(g.oldest, e, func(a, b admin.Entry) int {
			if a.Age >= b.Age { // equal ones in the order of their arrival here
				return -1
			}
			return 1
		})
		if at < n {
			g.oldest = slices.Insert(g.oldest[:min(len(g.oldest), n-1)], at, e)
		}
	}
	return g, nil
}

// screen shows one round after the other: on a terminal each in the place of the
// one before.
type screen struct {
	c        *cli
	file     *os.File
	terminal bool
}

func newScreen(c *cli) *screen {
	file, _ := c.out.(*os.File)
	s := &screen{c: c, file: file, terminal: isTerminal(c.out) && !c.json && os.Getenv("TERM") != "dumb"}
	if s.terminal {
		fmt.Fprint(c.out, "\x1b[?1049h\x1b[?25l\x1b[?7l") // the alternate screen, no cursor, no second line for wide characters
	}
	return s
}

func (s *screen) close() {
	if s.terminal {
		fmt.Fprint(s.c.out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
}

func (s *screen) size() (width, height int) {
	if s.terminal {
		if w, h, err := term.GetSize(int(s.file.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 1 << 10, 54
}

// rows is the number of entries that fit.
func (s *screen) rows() int {
	_, height := s.size()
	return max(1, height-4) // the verdict, an empty line, the head, and what is left out
}

func (s *screen) show(g glance) error {
	if s.c.json {
		return s.showJSON(g)
	}
	text := s.text(g)
	if s.terminal {
		width, _ := s.size()
		var b strings.Builder
		b.WriteString("\x1b[H")
		for l := range strings.Lines(text) {
			b.WriteString(clipped(strings.TrimSuffix(l, "\n"), width) + "\x1b[K\n")
		}
		text = strings.TrimSuffix(b.String(), "\n") + "\x1b[J"
	}
	_, err := fmt.Fprint(s.c.out, text)
	return err
}

func (s *screen) text(g glance) string {
	on := colours(s.c.out)
	db, coll, _ := s.c.namespace()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %s  every %v", styled(on, bold, db+"."+coll), g.at.Format(time.TimeOnly+"Z"), g.every)
	if g.err != nil {
		fmt.Fprintf(&b, "\n\n%s\n%s\n", styled(on, red, cell(trimmed(s.c.redacted(g.err.Error())))), hintOf(g.err))
		return b.String()
	}
	fmt.Fprintf(&b, "  %s\n\n", &g.count)
	rows := newTable(&b, entryHead...)
	rows.colour = on
	for _, e := range g.oldest {
		_ = rows.add(styleOf(e), entryRow(e)...) // into a buffer
	}
	_ = rows.flush()
	if more := g.count.total() - len(g.oldest); more > 0 {
		fmt.Fprintf(&b, "… and %d more, which are younger\n", more)
	}
	if len(g.oldest) == 0 {
		b.WriteString("no entries\n")
	}
	if !s.terminal {
		b.WriteString("\n")
	}
	return b.String()
}

func (s *screen) showJSON(g glance) error {
	round := struct {
		At      time.Time     `json:"at"`
		Count   tally         `json:"count"`
		Entries []admin.Entry `json:"entries"`
		Error   string        `json:"error,omitempty"`
	}{At: g.at, Count: g.count, Entries: g.oldest}
	if g.err != nil {
		round.Error = s.c.redacted(g.err.Error())
	}
	if round.Entries == nil {
		round.Entries = []admin.Entry{}
	}
	return s.c.printJSON(round)
}

// clipped is a line that fits on a terminal. Its escape sequences take no place.
func clipped(line string, width int) string {
	var b strings.Builder
	escaped := false
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case r == '\x1b':
			escaped = true
		case escaped:
			escaped = r != 'm'
			b.WriteRune(r)
			i += size
			continue
		case width <= 0:
			i += size
			continue
		default:
			width--
		}
		b.WriteRune(r)
		i += size
	}
	return b.String()
}
