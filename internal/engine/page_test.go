package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// pageRules are the rules of the package relations, as docs/layout.md has them.
var pageRules = map[string]relations.Rules{
	"Exclusive": relations.Exclusive(), "ReadPreferring": relations.ReadPreferring(), "WritePreferring": relations.WritePreferring(),
	"Fair": relations.Fair(), "Semaphore(1)": relations.Semaphore(1), "Semaphore(3)": relations.Semaphore(3),
	"MultiGranularity": relations.MultiGranularity(),
}

// docs/layout.md has the presets, and a reader's question, which the server answers.
func TestPageHasTheRulesAndTheQuestion(t *testing.T) {
	t.Parallel()
	all := map[string]relations.Rules{}
	must(t, json.Unmarshal([]byte(block(t, "json")), &all))
	if diff := cmp.Diff(pageRules, all); diff != "" {
		t.Errorf("the presets (-of package relations +of the page):\n%s", diff)
	}

	mongotest.Real(t, "$unwind")
	w := newWorld(t, bson.E{Key: "_id", Value: 7})
	p := w.peer(relations.Fair(), func(c *Config) { c.Now, c.WaitTTL = nil, ttl })
	_, _ = p.Engine.Acquire(t.Context(), w.filter(), Request{Tag: "read", ID: ann})
	_, _ = p.Engine.Acquire(t.Context(), w.filter(), Request{Tag: "write", ID: bob})
	w.Change(bson.M{"$push": bson.M{"lock.tags.read": bson.M{"id": binaryID(cid), "expires": bson.DateTime(0)}}})
	stages, _ := strings.CutPrefix(block(t, "js"), "db.orders.aggregate(")
	stages = regexp.MustCompile(`([{,]\s*)(\$?\w+):`).ReplaceAllString(strings.TrimSuffix(stages, ")\n"), `$1"$2":`)
	var pipeline bson.A
	must(t, bson.UnmarshalExtJSON([]byte(stages), false, &pipeline))
	_, err := w.Hand.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "city", Value: 1}}}) // DocumentDB then refuses $$NOW in a find
	must(t, err)
	cursor, err := w.Hand.Aggregate(t.Context(), pipeline)
	must(t, err)
	var rows []struct {
		Tag       string
		Fence, Ms int64
	}
	must(t, cursor.All(t.Context(), &rows))
	if len(rows) != 2 || rows[0].Tag != "read" || rows[0].Fence == 0 || rows[1].Tag != "write" || rows[1].Fence != 0 || rows[1].Ms <= 0 {
		t.Errorf("the answer is %+v", rows)
	}
}

// A command that is refused by one of the page's codes has done nothing, and won't succeed.
func TestPageHasRefusals(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "layout.md"))
	must(t, err)
	_, list, _ := strings.Cut(strings.Join(strings.Fields(string(text)), " "), "A reply whose error code is ")
	list, _, _ = strings.Cut(list, " refuses")
	codes := regexp.MustCompile(`\d+`).FindAllString(list, -1)
	if len(codes) < 10 {
		t.Fatalf("the page has the codes %v only", codes)
	}
	for _, code := range codes {
		n, err := strconv.Atoi(code)
		must(t, err)
		if !AsFailure(classify(mongo.CommandError{Code: int32(n)})).Refused() {
			t.Errorf("code %d does not refuse a command for good", n)
		}
	}
}

// block is the first block of the page in this language.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "layout.md"))
	must(t, err)
	_, rest, found := strings.Cut(string(text), "\n```"+language+"\n")
	if !found {
		t.Fatal("docs/layout.md has no block of " + language)
	}
	inside, _, _ := strings.Cut(rest, "```")
	return inside
}

// docs/vectors/commands.json has the decisions of the presets as the engine sends them, with
// marks in the place of values.
func TestVectorsHaveTheCommands(t *testing.T) {
	t.Parallel()
	coll := mongotest.Client(t).Database("none").Collection("none")
	marked := strings.NewReplacer(`{"$binary":{"base64":"ERERESIiQzOERFVVVVVVVQ==","subType":"04"}}`, `"<id>"`, `"owner"}`, `"<owner>"}`,
		"10500", `"<held ms>"`, "4500", `"<waiting ms>"`)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(pageRules)) {
		e, err := New(coll, pageRules[name], Config{Terms: Terms{TTL: ttl, Owner: "owner"}, WaitTTL: waitTTL, Tolerance: extra, Field: DefaultField})
		must(t, err)
		for _, tag := range pageRules[name].Tags() {
			commands := []string{"acquire", "try", "confirm"}
			if !e.decision(tag, ttl).waits() { // a try is an acquire, and nothing is confirmed
				commands = commands[:1]
			}
			for c, command := range commands {
				update := e.fill([]part{acquiring, trying, confirming}[c], tag, Terms{}, uuid.MustParse("11111111-2222-4333-8444-555555555555"))
				text, err := bson.MarshalExtJSON(field("update", update), false, false)
				must(t, err)
				lines = append(lines, fmt.Sprintf("  {\"rules\": %q, \"tag\": %q, \"command\": %q, %s", name, tag, command, marked.Replace(string(text))[1:]))
			}
		}
	}
	sent, path := "[\n"+strings.Join(lines, ",\n")+"\n]\n", filepath.Join("..", "..", "docs", "vectors", "commands.json")
	if *update {
		must(t, os.WriteFile(path, []byte(sent), 0o644))
	}
	kept, err := os.ReadFile(path)
	must(t, err)
	if string(kept) != sent {
		t.Error("docs/vectors/commands.json is not what is sent; after an intended change run: go test ./internal/engine -run TestVectors -update")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
