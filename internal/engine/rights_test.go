package engine

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The rights in the documentation are those in the code.
func TestRightsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/rights.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "## What the error says")
	rows := regexp.MustCompile("(?m)^\\| `(.*?)` \\| (.*) \\|$").FindAllStringSubmatch(commands, -1)
	for _, row := range rows {
		if want := strings.ReplaceAll(row[2], "`", ""); strings.Join(rights[row[1]], ", ") != want {
			t.Errorf("%s: the page has %s, the code %v", row[1], want, rights[row[1]])
		}
	}
	if len(rows) != len(rights) {
		t.Errorf("the page has %d commands, the code %d", len(rows), len(rights))
	}
}

// The refusal of each command names the rights that it needs, and proves that nothing
// happened. "update with upsert" and "createIndexes" are package admin's TestRights.
func TestMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	router := w.sharded(nil)
	p = w.peer(relations.Exclusive())
	router.Grant()
	bypass, err := p.ParseUpdate(bson.M{"$set": bson.M{"x": 1}}, options.UpdateOne().SetBypassDocumentValidation(true))
	if err != nil {
		t.Fatal(err)
	}
	all := writes(p, g)
	all["find"] = func(ctx context.Context) error { _, err := p.Find(ctx, p.filter()); return err }
	all["read"] = func(ctx context.Context) error { _, err := p.Read(ctx, g.Pin); return err }
	all["standing"] = func(ctx context.Context) error { _, _, err := p.Standing(ctx, []Grant{g}); return err }
	all["absent"] = func(ctx context.Context) error { return p.Absent(ctx, p.filter()) }
	all["candidates"] = func(ctx context.Context) error { _, err := p.Candidates(ctx, p.filter(), "write", 1); return err }
	all["survey"] = func(ctx context.Context) error {
		for _, err := range p.Survey(ctx, Survey{}) {
			return err
		}
		return nil
	}
	all["bypass"] = func(ctx context.Context) error { _, err := p.Write(ctx, g, bypass, 1); return err }
	kinds := map[string]string{
		"find": "find", "read": "find", "standing": "find", "absent": "find", "survey": "find", "candidates": "aggregate",
		"renew all": "update", "remove each": "update", "delete what is idle": "delete",
		"delete": "findAndModify with remove", "bypass": "findAndModify with bypassDocumentValidation",
	}
	for name, send := range all {
		err := send(t.Context())
		kind, known := kinds[name]
		if !known {
			kind = "findAndModify"
		}
		want := kind + " needs the rights " + strings.Join(rights[kind], ", ") + " on " + p.Namespace() + ": docs/rights.md"
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, not %s", name, err, want)
		}
		if f := AsFailure(err); !f.Nothing || f.Passes || f.Cause != CauseUnauthorized {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
