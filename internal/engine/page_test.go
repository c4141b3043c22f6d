package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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
	w.Change(bson.M{"$push": bson.M{"lock.tags.read": bson.M{"$each": bson.A{
		bson.M{"id": binaryID(cid), "expires": bson.DateTime(0)},
		bson.M{"id": binaryID(cid), "expires": bson.DateTime(0), "seq": int64(1 << 52), "fenced": bson.M{"id": binaryID(cid), "slots": 1}},
	}}}})
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
	if len(rows) != 3 || rows[2].Ms >= 0 || rows[0].Tag != "read" || rows[0].Fence == 0 || rows[1].Tag != "write" || rows[1].Fence != 0 || rows[1].Ms <= 0 {
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

// The client for Node takes the same codes for refusals.
func TestNodeHasTheRefusals(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "clients", "node", "doclock.js"))
	must(t, err)
	_, list, _ := strings.Cut(string(text), "const refusals = ")
	list, _, _ = strings.Cut(list, ".map(")
	var ranges []any
	must(t, json.Unmarshal([]byte(list), &ranges))
	var node codes
	for _, r := range ranges {
		ends, several := r.([]any)
		if !several {
			ends = []any{r, r}
		}
		node = append(node, [2]int{int(ends[0].(float64)), int(ends[1].(float64))})
	}
	all := slices.Concat(node, unread, unrouted, uncomputed)
	for _, r := range all {
		for code := r[0] - 1; code <= r[1]+1; code++ {
			if node.has(code) != refused(code) {
				t.Errorf("code %d refuses in Node: %v, here: %v", code, node.has(code), refused(code))
			}
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
				update := e.fill([]part{acquiring, trying, confirming}[c], Request{Tag: tag, ID: uuid.MustParse("11111111-2222-4333-8444-555555555555")})
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

type marks = map[string]any

// vector is one of docs/vectors/cases.json, which docs/vectors/README.md describes. They are
// written by hand, after docs/layout.md.
type vector struct {
	Name, Rules, Tag, Command string
	Least                     int64
	Fence, K                  float64
	Update, Before, After     any
	Outcome                   string
}

// The vectors by which clients in other languages are tested hold for the engine: in memory,
// where no time passes, and on the server.
func TestVectors(t *testing.T) {
	t.Parallel()
	mongotest.RunVirtual(t, "memory", runVectors)
	t.Run("server", runVectors)
}

func runVectors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "vectors", "cases.json"))
	must(t, err)
	var file struct{ Cases []vector }
	must(t, json.Unmarshal(text, &file))
	if len(file.Cases) < 100 {
		t.Errorf("only %d cases", len(file.Cases))
	}
	w := emptyWorld(t)
	engines := map[string]*Engine{}
	for name, rules := range pageRules {
		terms := Terms{TTL: time.Minute, Owner: "vector"}
		engines[name], err = New(w.lab, rules, Config{Terms: terms, WaitTTL: 20 * time.Second, Tolerance: extra, Field: DefaultField})
		must(t, err)
	}
	for i, v := range file.Cases {
		w.ID = fmt.Sprint(i)
		from := w.serversTime()
		if v.Before != nil {
			before := v.Before.(marks)
			before["_id"] = w.ID
			_, err := w.Hand.InsertOne(t.Context(), stand(before, from))
			must(t, err)
		}
		outcome, err := w.perform(engines[v.Rules], v, from)
		if outcome != v.Outcome {
			t.Errorf("%s, %s: %s, %v, want %s", v.Command, v.Name, outcome, err, v.Outcome)
		}
		to := w.serversTime()
		if v.After == "same" {
			v.After = v.Before
		}
		if v.After != nil {
			v.After.(marks)["_id"] = w.ID
		}
		var stored any
		if raw, err := w.Hand.FindOne(t.Context(), bson.M{"_id": w.ID}).Raw(); err == nil {
			stored = decodedM(t, raw)
		} else if !errors.Is(err, mongo.ErrNoDocuments) {
			t.Fatal(err)
		}
		if !stands(v.After, stored, from, to) {
			t.Errorf("%s, %s: made %v\nof %v,\nwant %v", v.Command, v.Name, stored, v.Before, v.After)
		}
	}
}

// serversTime is the server's clock.
func (w *world) serversTime() time.Time {
	w.Helper()
	var clock struct{ Now time.Time }
	must(w.TB.(*testing.T), w.Hand.FindOneAndUpdate(w.Context(), bson.M{"_id": "clock"}, bson.A{bson.M{"$set": bson.M{"now": "$$NOW"}}},
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&clock))
	return clock.Now
}

// perform sends the vector's command, and returns what the answer means.
func (w *world) perform(e *Engine, v vector, now time.Time) (outcome string, err error) {
	id, filter := named("me"), w.filter()
	r := Request{Tag: v.Tag, ID: id, Try: v.Command == "try", Terms: Terms{Least: time.Duration(v.Least) * time.Millisecond}}
	g := Grant{Pin: filter.Pin, TTL: time.Minute, Entry: Entry{Tag: v.Tag, ID: id, Fence: int64(v.Fence)}}
	if before, there := stand(v.Before, now).(bson.M); there { // as the grant's image has shown it
		if raw, err := bson.Marshal(before[DefaultField]); err == nil {
			lock, _ := parseLock(embedded(raw))
			own, _ := lock.Find(v.Tag, id)
			g.Until = own.Until
		}
	}
	var u *Update
	if v.Update != nil {
		if u, err = e.ParseUpdate(stand(v.Update, now)); err != nil {
			return "", err
		}
	}
	var got Answer
	switch v.Command {
	case "acquire", "try":
		got, err = e.Acquire(w.Context(), filter, r)
	case "confirm":
		got, err = e.Confirm(w.Context(), filter, g.Pin, r)
	case "renew":
		got, err = e.Renew(w.Context(), g)
	case "write":
		got, err = e.Write(w.Context(), g, u, int64(v.K))
	case "write and release":
		got, err = e.WriteAndRelease(w.Context(), g, u)
	case "release":
		got, err = e.Release(w.Context(), g)
	case "clean up":
		var found []uuid.UUID
		found, err = e.Remove(w.Context(), Filter{Pin: g.Pin}, v.Tag, []uuid.UUID{id})
		got.Outcome = Lost
		if len(found) > 0 {
			got.Outcome = Released
		}
	}
	var failure *Failure
	switch {
	case errors.As(err, &failure) && failure.Cause == CauseForeign:
		return "foreign", nil
	case err != nil:
		return "", err
	}
	return strings.ReplaceAll(got.Outcome.String(), "conflict", "refused"), nil
}

// special is the only field of {"$now": …}, {"$fence": …} or {"$id": …}.
func special(v any) (kind string, of any) {
	if doc, ok := v.(marks); ok && len(doc) == 1 {
		for kind, of := range doc {
			if slices.Contains([]string{"$now", "$fence", "$id"}, kind) {
				return kind, of
			}
		}
	}
	return "", nil
}

// stand is a value of a vector as it is stored at this time.
func stand(v any, now time.Time) any {
	switch kind, of := special(v); kind {
	case "$now":
		return bson.NewDateTimeFromTime(now.Add(time.Duration(of.(float64)) * time.Millisecond))
	case "$fence":
		return now.UnixMilli() + int64(of.(float64))
	case "$id":
		return binaryID(named(of.(string)))
	}
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		all := bson.A{}
		for _, e := range v {
			all = append(all, stand(e, now))
		}
		return all
	case marks:
		all := bson.M{}
		for key, value := range v {
			all[key] = stand(value, now)
		}
		return all
	}
	return v
}

// stands reports whether a stored value is that of a vector whose command was executed
// between two times.
func stands(v, stored any, from, to time.Time) bool {
	between := func(at, from, to int64) bool { return from <= at && at <= to }
	switch kind, of := special(v); {
	case kind == "$now":
		at, ok := stored.(bson.DateTime)
		ms := int64(of.(float64))
		return ok && between(int64(at), from.UnixMilli()+ms, to.UnixMilli()+ms)
	case kind == "$fence" && of == "now":
		at, ok := stored.(int64)
		return ok && between(at, from.UnixMilli(), to.UnixMilli())
	case kind == "$id" && of == "*":
		id, ok := stored.(bson.Binary)
		return ok && id.Subtype == 4 && len(id.Data) == 16
	case kind != "":
		return fmt.Sprint(stand(v, from)) == fmt.Sprint(stored)
	}
	switch v := v.(type) {
	case []any:
		array, ok := stored.(bson.A)
		return ok && slices.EqualFunc(v, array, func(v, stored any) bool { return stands(v, stored, from, to) })
	case marks:
		doc, ok := stored.(bson.M)
		return ok && maps.EqualFunc(v, map[string]any(doc), func(v, stored any) bool { return stands(v, stored, from, to) })
	}
	return stand(v, from) == stored
}
