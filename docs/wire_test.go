package docs_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// docs/layout.md has the fields of a lock, with their types, as the server has them after each kind of command.
func TestTheFormatIsThatOfThePage(t *testing.T) {
	stored := map[string]string{}
	orders := locktest.New(t, locktest.ReplicaSet()).Collection("orders", bson.M{"_id": 1}, bson.M{"_id": 2})
	fair, err := multilock.New(orders, relations.Fair())
	must(t, err)
	first, err := fair.TryAcquire(t.Context(), bson.M{"_id": 1}, "write", doclock.HoldAtLeast(1e9))
	must(t, err)
	must(t, first.Update(t.Context(), bson.M{"$set": bson.M{"n": 1}}))
	must(t, first.WithTransaction(t.Context(), func(context.Context) error { return nil }))
	_, err = fair.Enqueue(t.Context(), bson.M{"_id": 1}, "write")
	must(t, err)
	_, err = first.Detach(t.Context())
	must(t, err)
	second, err := fair.TryAcquire(t.Context(), bson.M{"_id": 2}, "write")
	must(t, err)
	must(t, second.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"n": 1}}))
	third, err := fair.TryAcquire(t.Context(), bson.M{"_id": 2}, "write")
	must(t, err)
	_, err = admin.Break(t.Context(), orders, admin.Entry{DocumentID: third.DocumentID(), Tag: "write", ID: third.ID(), Fence: third.Fence()})
	must(t, err)
	documents, err := orders.Find(t.Context(), bson.M{})
	must(t, err)
	for documents.Next(t.Context()) {
		lock := documents.Current.Lookup("lock").Document()
		types(t, lock, "  ", stored)
		if tags, ok := lock.Lookup("tags").DocumentOK(); ok {
			if entries, ok := tags.Lookup("write").ArrayOK(); ok {
				values, err := entries.Values()
				must(t, err)
				for _, entry := range values {
					types(t, entry.Document(), "      ", stored)
					if mark, ok := entry.Document().Lookup("fenced").DocumentOK(); ok {
						types(t, mark, "        ", stored)
					}
				}
			}
		}
	}

	_, block, _ := strings.Cut(source(t, "docs/layout.md"), "```\nlock: {")
	block, _, _ = strings.Cut(block, "```")
	if diff := cmp.Diff(described(block), stored); diff != "" {
		t.Errorf("the page (-) has other fields than a document (+):\n%s", diff)
	}
	for _, at := range regexp.MustCompile(`\b(Int|Long|UUID|Date|true|subtype 4)\b`).FindAllStringIndex(block, -1) {
		if other := block[:at[0]] + "Double" + block[at[1]:]; cmp.Equal(described(other), stored) {
			t.Errorf("another type isn't noticed in %s", other)
		}
	}
}

// described has the types of a block's fields, by their indentation and name, and the subtype that it gives to a UUID.
func described(block string) map[string]string {
	fields := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^( +)(\w+): +((?:\[ )?\S+?),?(?: |$)(?:.* (subtype \d+))?`).FindAllStringSubmatch(block, -1) {
		if fields[m[1]+m[2]] = m[3]; m[2] == "id" {
			fields[m[1]+m[2]] += " " + m[4]
		}
	}
	return fields
}

// types adds the fields of a document, with their types as docs/layout.md writes them.
func types(t *testing.T, doc bson.Raw, indentation string, found map[string]string) {
	t.Helper()
	names := map[bson.Type]string{
		bson.TypeBinary: "UUID", bson.TypeString: `"host/pid/…"`, bson.TypeInt64: "Long", bson.TypeInt32: "Int", bson.TypeDateTime: "Date",
		bson.TypeBoolean: "true", bson.TypeEmbeddedDocument: "{", bson.TypeArray: "[",
	}
	elements, err := doc.Elements()
	must(t, err)
	for _, e := range elements {
		name := names[e.Value().Type]
		if values, ok := e.Value().ArrayOK(); ok {
			name += " " + names[values.Index(0).Type]
		}
		if subtype, _, ok := e.Value().BinaryOK(); ok && e.Key() == "id" {
			name += fmt.Sprintf(" subtype %d", subtype)
		}
		found[indentation+e.Key()] = name
	}
}

// The role in docs/production.md has the actions of its table of rights, which admin/rights_test.go compares.
func TestRoleHasTheRights(t *testing.T) {
	page := source(t, "docs/production.md")
	row := regexp.MustCompile(`(?m)^\| (.*) \| (.*) \|$`)
	_, page, _ = strings.Cut(page, "\n## Rights\n")
	table, _, _ := strings.Cut(page, "\n### ")
	rights := func(what string) []string {
		needed := map[string]bool{}
		for _, m := range row.FindAllStringSubmatch(table, -1)[1:] {
			if regexp.MustCompile(what).MatchString(m[1]) {
				for _, action := range strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ") {
					needed[action] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(needed))
	}
	_, script, _ := strings.Cut(page, "```js\n")
	script, _, _ = strings.Cut(script, "```")
	got := map[string][]string{}
	for _, m := range regexp.MustCompile(`collection: "([\w.]+)"}, actions: \[([^]]*)\]`).FindAllStringSubmatch(script, -1) {
		got[m[1]] = slices.Sorted(strings.SplitSeq(strings.ReplaceAll(m[2], `"`, ""), ", "))
	}
	want := map[string][]string{
		"orders":         rights("^a Locker of any kind"),
		"doclock.fences": slices.Sorted(slices.Values(append(rights("WithTransaction"), "createIndex"))),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the role, (-) as the table says, (+) as it is:\n%s", diff)
	}
}
