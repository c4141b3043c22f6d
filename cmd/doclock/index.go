package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/doclock/doclock/admin"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const indexLong = `index makes a sparse index for each tag, if it isn't there. With it "ls --tag" and "watch
--tag" read only the documents that have entries under these tags now.

The price is one write to the index by each grant and each release. Nothing else in
doclock makes or needs an index. It is no TTL index: one on the lock field would delete
your documents. The index of a collection that isn't there makes it, and index says so.`

const indexExample = `  doclock index -c shop.orders write
  doclock index -c book.categories read write`

func newIndex(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "index [flags] TAG…", Short: "Make indexes that ls --tag uses",
		Long: indexLong, Example: indexExample, Args: cobra.MinimumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, tags []string) error { return c.ofCollection(c.index(ctx, tags)) }),
	}
}

func (c *cli) index(ctx context.Context, tags []string) error {
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		missing := isMissing(ctx, coll)
		names, err := admin.EnsureIndexes(ctx, coll, tags, admin.Field(c.field))
		if err != nil {
			return err
		}
		if missing {
			fmt.Fprintf(c.err, "%s: there was no such collection; now there is an empty one\n", c.full())
		}
		if c.json {
			return c.printJSON(map[string][]string{"indexes": names})
		}
		_, err = fmt.Fprintln(c.out, strings.Join(names, "\n"))
		return err
	})
}
