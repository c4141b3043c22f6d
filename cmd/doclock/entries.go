package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// choice is the flags that choose entries of a collection, of ls and watch.
type choice struct {
	owner, within string
	tags          []string
	older         time.Duration
	expired, live bool
}

func (q *choice) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.owner, "owner", "", "only entries of this `OWNER`")
	f.StringSliceVar(&q.tags, "tag", nil, "only entries under these `TAGS`")
	f.DurationVar(&q.older, "older", 0, "only entries older than this `DURATION`, as 2h")
	f.BoolVar(&q.expired, "expired", false, "only expired entries")
	f.BoolVar(&q.live, "live", false, "only entries that have not expired")
	f.StringVar(&q.within, "within", "", "only documents that match this `FILTER`")
	cmd.MarkFlagsMutuallyExclusive("expired", "live")
}

// query is the choice as the package admin takes it.
func (q *choice) query() (admin.Query, []admin.Option, error) {
	query := admin.Query{Owner: q.owner, Tags: q.tags, OlderThan: q.older}
	switch {
	case q.expired:
		query.Only = admin.Expired
	case q.live:
		query.Only = admin.Live
	}
	opts, err := withinOption(q.within)
	return query, opts, err
}

// withinOption is the option of a --within.
func withinOption(text string) ([]admin.Option, error) {
	if text == "" {
		return nil, nil
	}
	filter, err := parseDocument("--within", text)
	if err != nil {
		return nil, err
	}
	return []admin.Option{admin.Within(filter)}, nil
}

// tally counts the entries that were shown.
type tally struct {
	Held    int `json:"held"`
	Waiting int `json:"waiting"`
	Expired int `json:"expired"`
	Foreign int `json:"foreign"`
}

func (t *tally) add(e admin.Entry) {
	switch {
	case e.Expired():
		t.Expired++
	case e.State == admin.Waiting:
		t.Waiting++
	default:
		t.Held++
	}
}

func (t *tally) String() string {
	s := fmt.Sprintf("%d held, %d waiting, %d expired", t.Held, t.Waiting, t.Expired)
	if t.Foreign > 0 {
		s += fmt.Sprintf(", %d documents with a lock field that is not doclock's", t.Foreign)
	}
	return s
}

// table writes entries in columns. It keeps back a block of rows, so that it needs
// the same memory for any number of them.
type table struct {
	w    *tabwriter.Writer
	rows int
}

func newTable(w io.Writer) *table { return &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// add writes a row, soon. An error of a write comes with the block.
func (t *table) add(e admin.Entry) error {
	if t.rows == 0 {
		fmt.Fprintln(t.w, "DOCUMENT\tTAG\tSTATE\tLEFT\tAGE\tOWNER")
	}
	left, age := short(e.Remaining), short(e.Age)
	if e.Expires.IsZero() {
		left = "?"
	}
	if e.Since.IsZero() {
		age = "?"
	}
	fmt.Fprintf(t.w, "%s\t%s\t%s\t%s\t%s\t%s\n", oneline.Text(word(e.DocumentID)), oneline.Text(e.Tag), stateOf(e), left, age, oneline.Text(cmp.Or(e.Owner, "?")))
	const block = 1000
	if t.rows++; t.rows%block == 0 {
		return t.w.Flush()
	}
	return nil
}

func stateOf(e admin.Entry) string {
	switch {
	case e.Expired() && e.HasTransactions:
		return "expired, may exclude"
	case e.Expired():
		return "expired"
	default:
		return string(e.State)
	}
}

// ofCollection adds the collection's name to an error that says nothing of it.
func (c *cli) ofCollection(err error) error {
	var end *ending
	if err == nil || errors.As(err, &end) {
		return err
	}
	return fmt.Errorf("%s: %w", c.full(), err)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// short is a duration as people read it: 8s, 12m, 3h05m, 2d04h.
func short(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -max(d, -math.MaxInt64)
	}
	switch s := int64(d / time.Second); {
	case s < 60:
		return fmt.Sprintf("%s%ds", sign, s)
	case s < 3600:
		return fmt.Sprintf("%s%dm%02ds", sign, s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%s%dh%02dm", sign, s/3600, s/60%60)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, s/86400, s/3600%24)
	}
}
