package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/spf13/cobra"
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
	f.StringVar(&q.owner, "owner", "", "only the entries of this `OWNER`")
	f.StringSliceVar(&q.tags, "tag", nil, "only the entries under one of these `TAGS`")
	f.DurationVar(&q.older, "older", 0, "only the entries that arrived at least this `DURATION` ago, as in 90s or 2h")
	f.BoolVar(&q.expired, "expired", false, "only expired entries, which exclude nobody any more")
	f.BoolVar(&q.live, "live", false, "only entries that have not expired")
	f.StringVar(&q.within, "within", "", "only the documents that match this `FILTER`, in extended JSON")
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

func (t *tally) total() int { return t.Held + t.Waiting + t.Expired }

func (t *tally) String() string {
	s := fmt.Sprintf("%d held, %d waiting, %d expired", t.Held, t.Waiting, t.Expired)
	if t.Foreign > 0 {
		s += fmt.Sprintf(", %d documents with a lock field that is not doclock's", t.Foreign)
	}
	return s
}

// The columns of a table of entries.
var entryHead = []string{"DOCUMENT", "TAG", "STATE", "LEFT", "AGE", "OWNER"}

func entryRow(e admin.Entry) []string {
	left, age := short(e.Remaining), short(e.Age)
	if e.Expires.IsZero() {
		left = "?"
	}
	if e.Since.IsZero() {
		age = "?"
	}
	return []string{cell(word(e.DocumentID)), cell(e.Tag), stateOf(e), left, age, cell(cmp.Or(e.Owner, "?"))}
}

func stateOf(e admin.Entry) string {
	if e.Expired() {
		return "expired"
	}
	return string(e.State)
}

// styleOf makes those who wait stand out, and those who are in nobody's way
// stand back.
func styleOf(e admin.Entry) style {
	switch {
	case e.Expired():
		return dim
	case e.State == admin.Waiting:
		return yellow
	default:
		return plain
	}
}

// ofCollection adds the collection's name to an error that says nothing of it.
func (c *cli) ofCollection(err error) error {
	var end *ending
	if err == nil || errors.As(err, &end) {
		return err
	}
	db, coll, nameErr := c.namespace()
	if nameErr != nil {
		return err
	}
	return fmt.Errorf("%s.%s: %w", db, coll, err)
}
