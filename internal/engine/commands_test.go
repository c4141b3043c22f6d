package engine_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/sent"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
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
	if files, err := filepath.Glob(filepath.Join("testdata", "commands", "*")); err != nil || len(files) != len(shown) {
		t.Errorf("testdata/commands has %d files, and should have %d: %v, %v", len(files), len(shown), files, err)
	}
	for _, c := range shown {
		t.Run(c.name+"."+c.tag, func(t *testing.T) {
			path := filepath.Join("testdata", "commands", c.name+"."+c.tag+".json")
			text := textOf(t, c.rules, c.tag, c.name == "Fair")
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(kept), "\n"), strings.Split(text, "\n")); diff != "" {
				t.Errorf("(-kept +sent):\n%s", diff)
			}
		})
	}
}

// textOf is every command for one tag. Those of package admin differ little between tags.
func textOf(t *testing.T, rules relations.Rules, tag string, admin bool) string {
	t.Helper()
	all, err := sent.Commands(rules, "owner", tag)
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString("{")
	for i, c := range all {
		if strings.HasPrefix(c.Name, "admin: ") && !admin {
			break
		}
		text, err := bson.MarshalExtJSON(c.Sent, true, false)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			file.WriteString(",")
		}
		fmt.Fprintf(&file, "\n  %q: %s", c.Name, readable(text, "  "))
	}
	file.WriteString("\n}\n")
	return file.String()
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
