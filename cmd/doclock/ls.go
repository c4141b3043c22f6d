package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const lsLong = `ls lists the entries of a collection's locks, held and waiting, as the server finds them.

An expired entry excludes nobody, unless it says so: a transaction of its holder may be
open. It is in the document until the next grant or a sweep removes it. In JSON its "state"
is what it was: held, waiting, detached or remainder. LEFT is the time until an entry
expires if its holder does not renew it; a holder that lives renews it again and again.

A waiter of a cooperative tag, such as the exclusive "write", asks again and again, and
leaves no entry. So ls can't show it, and "0 waiting" does not mean that nobody waits.

The first column can be pasted as an argument of inspect, break and run.

A collection that isn't there is an error, unless it is doclock.locks, which the first
"doclock run" makes.

ls reads the whole collection; with --tag it reads only the documents that have such
entries, if there is an index (see doclock index). It prints a thousand lines at a time,
and needs the same memory for these and for millions.`

const lsExample = `  doclock ls -c shop.orders                      # all
  doclock ls -c shop.orders --older 1h           # who holds for long?
  doclock ls --owner web-3/4711/api              # of one program
  doclock ls --expired --json | jq -r 'select(.state == "held").owner'  # who died as a holder`

func newLs(c *cli) *cobra.Command {
	var q choice
	cmd := &cobra.Command{
		Use: "ls [flags]", Aliases: []string{"list"}, Short: "List the locks of a collection",
		Long: lsLong, Example: lsExample, Args: noName, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, _ []string) error { return c.ofCollection(c.list(ctx, &q)) }),
	}
	q.flags(cmd)
	return cmd
}

// noName refuses what may be a collection or a document.
func noName(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("unexpected %q: --collection names the collection, and inspect shows one document", args[0])
	}
	return nil
}

func (c *cli) list(ctx context.Context, q *choice) error {
	query, opts, err := q.query()
	if err != nil {
		return err
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		rows := newTable(c.out)
		defer rows.w.Flush()
		var seen tally
		for e, err := range admin.Entries(ctx, coll, query, c.adminOptions(opts...)...) {
			switch {
			case errors.Is(err, doclock.ErrForeignLock):
				seen.Foreign++
				err = c.listForeign(e, err)
			case err != nil:
			case c.json:
				seen.add(e)
				err = c.printJSON(e)
			default:
				seen.add(e)
				err = rows.add(e)
			}
			if err != nil {
				return err
			}
		}
		if err := rows.w.Flush(); err != nil {
			return err
		}
		summary := fmt.Sprintf("%s: %v", c.full(), &seen)
		if seen == (tally{}) {
			if c.isUnknown(ctx, coll) {
				return errNoCollection
			}
			summary = fmt.Sprintf("No entry of %s matches. If that is a surprise, check --collection.", c.full())
		}
		if !c.json && (isTerminal(c.out) || seen.Foreign > 0) {
			fmt.Fprintln(c.err, summary)
		}
		return nil
	})
}

var errNoCollection = errors.New("there is no such collection")

// isUnknown is isMissing, but of the default collection: before the first "doclock run" that
// isn't there, and that is right.
func (c *cli) isUnknown(ctx context.Context, coll *mongo.Collection) bool {
	return c.full() != defaultCollection && isMissing(ctx, coll)
}

// isMissing reports whether it is known that the collection isn't there.
func isMissing(ctx context.Context, coll *mongo.Collection) bool {
	names, err := coll.Database().ListCollectionNames(ctx, bson.M{"name": coll.Name()}, options.ListCollections().SetAuthorizedCollections(true))
	return err == nil && len(names) == 0
}

// listForeign lists a document whose lock field is not doclock's.
func (c *cli) listForeign(e admin.Entry, err error) error {
	if !c.json {
		_, err = fmt.Fprintf(c.err, "%s: its field %q is not a lock of doclock's\n", oneline.Text(word(e.DocumentID)), c.field)
		return err
	}
	return c.printJSON(struct {
		Document json.RawMessage `json:"document"`
		Error    string          `json:"error"`
	}{json.RawMessage(bsonvalue.Readable(e.DocumentID)), err.Error()})
}
