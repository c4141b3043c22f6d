package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// shown are the rules and tags whose commands are kept in testdata. Together
// they have every expression that the commands of any preset consist of: a tag
// that waits for all earlier entries, tags that refuse each other, one with a
// number of places, and one that both refuses and waits.
var shown = []struct {
	name, tag string
	rules     relations.Rules
}{
	{"Fair", "write", relations.Fair()},
	{"MultiGranularity", "SIX", relations.MultiGranularity()},
	{"Semaphore3", "slot", relations.Semaphore(3)},
	{"WritePreferring", "write", relations.WritePreferring()},
}

// The commands as they are sent are the protocol: other programs and older
// versions of this library have to agree with them. testdata/commands has every
// command once for each of these rules, as canonical extended JSON. After an
// intended change run: go test ./internal/engine -run TestCommands -update
func TestCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range shown {
		t.Run(c.name+"."+c.tag, func(t *testing.T) {
			path := filepath.Join("testdata", "commands", c.name+"."+c.tag+".json")
			sent := []byte(w.commandsOf(w.configured(c.rules, "owner"), c.tag))
			if *update {
				if err := os.WriteFile(path, sent, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(kept), "\n"), strings.Split(string(sent), "\n")); diff != "" {
				t.Errorf("(-kept +sent):\n%s", diff)
			}
		})
	}
}

// There is no other file in testdata/commands.
func TestNoOtherCommandsAreKept(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "commands", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(shown) {
		t.Errorf("testdata/commands has %d files, and should have %d: %v", len(files), len(shown), files)
	}
}

// configured is an engine for commandsOf.
func (w *world) configured(rules relations.Rules, owner string, shardKey ...string) *Engine {
	w.Helper()
	e, err := New(w.lab, rules, Config{Terms: Terms{TTL: ttl, Owner: owner}, WaitTTL: waitTTL, Tolerance: extra, Field: DefaultField, ShardKey: shardKey})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// commandsOf sends every command for one tag and returns the text of what was
// sent.
func (w *world) commandsOf(e *Engine, tag string) string {
	w.Helper()
	g := Grant{Pin: Pin{{Key: "_id", Value: 1}}, DocID: value(1), Tag: tag, ID: uuid.MustParse("11111111-2222-4333-8444-555555555555"), Fence: n0, Alone: n0}
	k := Token{Tag: tag, Key: uuid.MustParse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")}
	resumed := g
	resumed.Key = k.Key
	r := Request{Tag: tag, ID: g.ID}
	document, try := r, r
	document.Document, try.Try = true, true
	classic, pipeline := bson.M{"$inc": bson.M{"n": 1}}, bson.A{bson.M{"$set": bson.M{"n": 1}}}
	parsed := func(update any) *Update {
		u, err := e.ParseUpdate(update)
		if err != nil {
			w.Fatal(err)
		}
		return u
	}
	acquire := func(r Request) func(context.Context) (Answer, error) {
		return func(ctx context.Context) (Answer, error) { return e.Acquire(ctx, w.filter(), r) }
	}
	by := func(t Terms) Request {
		r := r
		r.Terms = t
		return r
	}
	longer, kept, from := g, g, g
	longer.TTL, kept.Until, from.Tag = 2*ttl, epoch.Add(held), e.Rules().Tags()[0]
	next := func(waiting bool) Successor {
		id := uuid.MustParse("66666666-7777-4888-9999-000000000000")
		return Successor{Request: Request{Tag: tag, ID: id, Document: true}, Waiting: waiting}
	}
	var file strings.Builder
	file.WriteString("{")
	for i, c := range []struct {
		name string
		send func(context.Context) (Answer, error)
	}{
		{"acquire", acquire(r)},
		{"acquire, with the document", acquire(document)},
		{"try", acquire(try)},
		{"confirm", func(ctx context.Context) (Answer, error) { return e.Confirm(ctx, g.Pin, r) }},
		{"renew", func(ctx context.Context) (Answer, error) { return e.Renew(ctx, g) }},
		{"renew two", func(ctx context.Context) (Answer, error) { return e.RenewAll(ctx, []Grant{g, g}) }},
		{"standing", func(ctx context.Context) (a Answer, err error) {
			_, _, err = e.Standing(ctx, []Grant{g})
			return a, err
		}},
		{"read", func(ctx context.Context) (a Answer, err error) { _, err = e.Read(ctx, g.Pin); return a, err }},
		{"write, classic", func(ctx context.Context) (Answer, error) { return e.Write(ctx, g, parsed(classic), 1) }},
		{"write, pipeline", func(ctx context.Context) (Answer, error) { return e.Write(ctx, g, parsed(pipeline), 1) }},
		{"write and release, classic", func(ctx context.Context) (Answer, error) { return e.WriteAndRelease(ctx, g, parsed(classic)) }},
		{"write and release, pipeline", func(ctx context.Context) (Answer, error) { return e.WriteAndRelease(ctx, g, parsed(pipeline)) }},
		{"handoff", func(ctx context.Context) (Answer, error) { return e.Handoff(ctx, g, next(false)) }},
		{"handoff to a waiting entry", func(ctx context.Context) (Answer, error) { return e.Handoff(ctx, g, next(true)) }},
		{"write and hand off, classic", func(ctx context.Context) (Answer, error) {
			return e.WriteAndHandOff(ctx, g, parsed(classic), next(false))
		}},
		{"write and hand off, pipeline", func(ctx context.Context) (Answer, error) {
			return e.WriteAndHandOff(ctx, g, parsed(pipeline), next(false))
		}},
		{"release", func(ctx context.Context) (Answer, error) { return e.Release(ctx, g) }},
		{"detach", func(ctx context.Context) (Answer, error) { return e.Detach(ctx, g, k.Key) }},
		{"resume, with the document", func(ctx context.Context) (Answer, error) { return e.Resume(ctx, w.filter(), k, document) }},
		{"resume, more demanded, another owner", func(ctx context.Context) (Answer, error) {
			return e.Resume(ctx, w.filterOf(bson.M{"state": "open"}), k, by(Terms{Owner: "$$e.id"}))
		}},
		{"touch", func(ctx context.Context) (Answer, error) { return e.Touch(ctx, w.filter(), k, ttl) }},
		{"touch, more demanded", func(ctx context.Context) (Answer, error) {
			return e.Touch(ctx, w.filterOf(bson.M{"state": "open"}), k, 2*ttl)
		}},
		{"release, after a resume", func(ctx context.Context) (Answer, error) { return e.Release(ctx, resumed) }},
		{"write and hand off, classic, after a resume", func(ctx context.Context) (Answer, error) {
			return e.WriteAndHandOff(ctx, resumed, parsed(classic), next(false))
		}},
		{"downgrade", func(ctx context.Context) (Answer, error) {
			return e.Downgrade(ctx, from, 1, Request{Tag: tag, ID: next(false).ID})
		}},
		{"remove two", func(ctx context.Context) (a Answer, err error) {
			_, err = e.Remove(ctx, g.Pin, tag, []uuid.UUID{g.ID, next(false).ID})
			return a, err
		}},
		{"acquire by terms", acquire(by(Terms{TTL: 2 * ttl, Owner: "another"}))},
		{"acquire and hold at least", acquire(by(Terms{Least: 3 * ttl}))},
		{"confirm and hold at least", func(ctx context.Context) (Answer, error) { return e.Confirm(ctx, g.Pin, by(Terms{Least: 3 * ttl})) }},
		{"renew by terms", func(ctx context.Context) (Answer, error) { return e.Renew(ctx, longer) }},
		{"write and release to a remainder, classic", func(ctx context.Context) (Answer, error) { return e.WriteAndRelease(ctx, kept, parsed(classic)) }},
		{"write and release to a remainder, pipeline", func(ctx context.Context) (Answer, error) { return e.WriteAndRelease(ctx, kept, parsed(pipeline)) }},
		{"handoff from a remainder", func(ctx context.Context) (Answer, error) { return e.Handoff(ctx, kept, next(false)) }},
		{"release to a remainder", func(ctx context.Context) (Answer, error) { return e.Release(ctx, kept) }},
	} {
		w.sent.Take()
		if _, err := c.send(w.Context()); err != nil {
			w.Fatalf("%s: %v", c.name, err)
		}
		sent := w.sent.All()[0] // a resume and a touch that find nothing read, too
		text, err := bson.MarshalExtJSON(essence(namedRemainder(sent, g.ID, next(false).ID)), true, false)
		if err != nil {
			w.Fatal(err)
		}
		if i > 0 {
			file.WriteString(",")
		}
		fmt.Fprintf(&file, "\n  %q: %s", c.name, readable(text, "  "))
	}
	file.WriteString("\n}\n")
	return file.String()
}

// namedRemainder gives a remainder, whose id is random, an id that is the same
// in every run.
func namedRemainder(command bson.Raw, known ...uuid.UUID) bson.Raw {
	command = bytes.Clone(command)
	prefix := idValue(uuid.Nil).Value[:5]
	for i := range command[:len(command)-len(uuid.Nil)-len(prefix)] {
		id := command[i+len(prefix) : i+len(prefix)+len(uuid.Nil)]
		if bytes.HasPrefix(command[i:], prefix) && !slices.Contains(known, uuid.UUID(id)) {
			copy(id, "remainder's id..")
		}
	}
	return command
}

// essence is a command without the fields that a connection, a session or a
// deadline adds.
func essence(command bson.Raw) bson.D {
	var doc bson.D
	if err := bson.Unmarshal(command, &doc); err != nil {
		panic(err)
	}
	return slices.DeleteFunc(doc, func(e bson.E) bool {
		return slices.Contains([]string{"lsid", "$clusterTime", "txnNumber", "maxTimeMS", "$db", "$readPreference"}, e.Key)
	})
}

// readable breaks long JSON into lines.
func readable(text []byte, indent string) string {
	const long = 120 // indentation doesn't count
	if len(text) <= long || text[0] != '{' && text[0] != '[' {
		return string(text)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	_, _ = decoder.Token()
	var keys []string
	var values []json.RawMessage
	for decoder.More() {
		var key string
		if text[0] == '{' {
			name, _ := decoder.Token()
			key = fmt.Sprintf("%q: ", name)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			panic(err)
		}
		keys, values = append(keys, key), append(values, value)
	}
	opened, closed := string(text[0]), string(text[len(text)-1])
	if len(values) == 1 {
		return opened + keys[0] + readable(values[0], indent) + closed
	}
	inner := "\n" + indent + "  "
	for i, value := range values {
		keys[i] += readable(value, indent+"  ")
	}
	return opened + inner + strings.Join(keys, ","+inner) + "\n" + indent + closed
}

var (
	into    = flag.String("into", "", "a directory for TestFurtherCommands to write to")
	presets = flag.Bool("presets", false, "have TestFurtherCommands write the commands of all presets too")
	drawn   = flag.Int("rules", 6, "the number of rules that TestFurtherCommands draws")
	seed    = flag.Uint64("seed", 1, "the seed of the drawn rules")
)

// The commands of presets, and of rules that nobody has chosen, for the evaluation that compares servers
// (proptest/evaluation): every second of those that are drawn has a shard key.
func TestFurtherCommands(t *testing.T) {
	t.Parallel()
	if *into == "" {
		t.Skip("no directory given")
	}
	w := newWorld(t)
	write := func(name string, rules relations.Rules, e *Engine) {
		for _, tag := range rules.Tags() {
			path := filepath.Join(*into, name+"."+tag+".json")
			if err := os.WriteFile(path, []byte(w.commandsOf(e, tag)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *presets {
		for name, rules := range map[string]relations.Rules{
			"Exclusive":        relations.Exclusive(),
			"ReadPreferring":   relations.ReadPreferring(),
			"WritePreferring":  relations.WritePreferring(),
			"Fair":             relations.Fair(),
			"Semaphore3":       relations.Semaphore(3),
			"MultiGranularity": relations.MultiGranularity(),
		} {
			write(name, rules, w.configured(rules, "owner"))
		}
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	for i := range *drawn {
		rules := drawRules(r)
		var shardKey []string
		if i%2 == 1 {
			shardKey = []string{"region", "_id"}
		}
		write(fmt.Sprintf("drawn%d", i), rules, w.configured(rules, "$$x.$y", shardKey...))
	}
}

// drawRules draws rules of two to four tags.
func drawRules(r *rand.Rand) relations.Rules {
	rules := relations.Rules{}
	tags := []string{"a", "b", "c-1", "d"}[:2+r.IntN(3)]
	for _, from := range tags {
		rules[from] = map[string]relations.Relation{}
		for _, to := range tags {
			if kind := []relations.Kind{relations.None, relations.Cooperative, relations.Assertive}[r.IntN(3)]; kind != relations.None {
				rules[from][to] = relations.Relation{Kind: kind, Allow: max(0, r.IntN(5)-1)}
			}
		}
	}
	return rules
}
