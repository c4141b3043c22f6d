package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const inspectLong = `inspect shows who holds one document, for how long, and until when.

A holder that lives renews its entry again and again. If "left" goes down to 0, the holder
is dead or cut off, and the next acquire is granted: there is nothing to do but wait. If
it stays up and the document is stuck, the holder lives: find it by its owner, or break
the entry.

With --rules, the rules of the programs that lock here, it also says who is in whose way:
a preset, or a file with a JSON table. "doclock rules --help" has both.

A waiter of a cooperative tag asks again and again, and leaves no entry. So "0 waiting"
does not mean that nobody waits.`

const inspectExample = `  doclock inspect nightly
  doclock inspect -c shop.orders A-17
  doclock inspect -c shop.orders '{"_id": 7}'
  doclock inspect -c book.categories friends --rules write-preferring`

func newInspect(c *cli) *cobra.Command {
	var rules string
	cmd := &cobra.Command{
		Use: "inspect [flags] NAME|FILTER", Aliases: []string{"show"}, Short: "Show who holds a document",
		Long: inspectLong, Example: inspectExample, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, args []string) error { return c.ofCollection(c.inspect(ctx, args[0], rules)) }),
	}
	rulesFlag(cmd, &rules)
	return cmd
}

func (c *cli) inspect(ctx context.Context, arg, rules string) error {
	t, err := parseTarget(arg)
	if err != nil {
		return err
	}
	var opts []admin.Option
	if rules != "" {
		r, err := readRules(rules)
		if err != nil {
			return err
		}
		opts = append(opts, admin.Rules(r))
	}
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		lock, err := admin.Inspect(ctx, coll, t.filter, c.adminOptions(opts...)...)
		if err != nil {
			return fmt.Errorf("%s: %w", t.text, err)
		}
		if c.json {
			return c.printJSON(lock)
		}
		_, err = fmt.Fprint(c.out, c.lockText(lock))
		return err
	})
}

// lockText is a lock for people: first whether it is held and by whom.
func (c *cli) lockText(lock *admin.Lock) string {
	var b strings.Builder
	var seen tally
	for _, e := range lock.Entries {
		seen.add(e)
	}
	fmt.Fprintf(&b, "%s in %s is %s\n", oneline.Text(word(lock.DocumentID)), c.full(), verdict(lock.Entries, seen))
	for _, e := range lock.Entries {
		b.WriteString("\n" + entryText(e, lock.Entries))
	}
	if lock.InTheWay != nil {
		b.WriteString("\nAn acquire now:\n")
		for _, tag := range slices.Sorted(maps.Keys(lock.InTheWay)) {
			kept := "is granted"
			if by := owners(lock.InTheWay[tag], lock.Entries); by != "" {
				kept = "is kept back by " + by
			}
			fmt.Fprintf(&b, "  %-10s %s\n", tag, kept)
		}
	}
	if seen.Held > 0 && isTerminal(c.out) {
		b.WriteString("\nIf the holder is dead, the lock ends when \"left\" does. If it lives, it renews the lock:\n" +
			"find it by its owner, or see doclock break --help.\n")
	}
	fmt.Fprintf(&b, "\nserver's clock  %s\n", lock.Now.Format(time.RFC3339))
	return b.String()
}

// verdict says first what matters most.
func verdict(entries []admin.Entry, seen tally) string {
	switch {
	case seen.Held+seen.Waiting == 0:
		if slices.ContainsFunc(entries, func(e admin.Entry) bool { return e.HasTransactions }) {
			return "not free: a transaction of a holder whose time is up may be open"
		}
		return "free: nobody holds it"
	case seen.Held == 1 && seen.Waiting == 0:
		i := slices.IndexFunc(entries, func(e admin.Entry) bool { return !e.Expired() })
		if entries[i].State == admin.Remainder {
			return "held by nobody, and not free yet"
		}
		return oneline.Text("held by " + cmp.Or(entries[i].Owner, "nobody known"))
	default:
		return seen.String()
	}
}

// entryText is one entry for people.
func entryText(e admin.Entry, among []admin.Entry) string {
	var b strings.Builder
	fmt.Fprintln(&b, "  "+oneline.Text(fmt.Sprintf("%s %q by %s", stateOf(e), e.Tag, cmp.Or(e.Owner, "nobody known"))))
	field := func(name, value string) { fmt.Fprintf(&b, "    %-8s %s\n", name, value) }
	if !e.Since.IsZero() {
		field("for", fmt.Sprintf("%s, since %s", short(e.Age), e.Since.Format(time.RFC3339)))
	}
	field("left", leftText(e))
	if e.Fence != 0 {
		field("fence", fmt.Sprint(e.Fence))
	}
	field("id", e.ID.String())
	if e.HasToken {
		field("token", "there is one: whoever has it can resume the lease")
	}
	if !e.Until.IsZero() {
		field("until", e.Until.Format(time.RFC3339)+": others are kept out until then, also after a release")
	}
	if len(e.WaitsFor) > 0 {
		field("behind", owners(e.WaitsFor, among))
	}
	return b.String()
}

func leftText(e admin.Entry) string {
	switch {
	case e.Expires.IsZero():
		return "it has no expiry"
	case e.Expired() && e.HasTransactions:
		return fmt.Sprintf("nothing: it expired %s ago, but excludes others while a transaction of its holder may be open", short(-e.Remaining))
	case e.Expired():
		return fmt.Sprintf("nothing: it expired %s ago and excludes nobody", short(-e.Remaining))
	case e.State == admin.Remainder:
		return short(e.Remaining) + ", and nobody holds it"
	default:
		return short(e.Remaining) + " unless it is renewed"
	}
}

// owners names entries by their owners and tags.
func owners(ids []uuid.UUID, among []admin.Entry) string {
	var names []string
	for _, id := range ids {
		i := slices.IndexFunc(among, func(e admin.Entry) bool { return e.ID == id })
		if i < 0 {
			names = append(names, id.String())
			continue
		}
		names = append(names, oneline.Text(fmt.Sprintf("%s (%q)", cmp.Or(among[i].Owner, "?"), among[i].Tag)))
	}
	return strings.Join(names, ", ")
}
