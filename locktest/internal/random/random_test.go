package random_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// attempt is one command on a collection with documents.
type attempt struct {
	documents []any
	unique    bson.D
	command   bson.D
}

func attempts(kinds ...string) *rapid.Generator[attempt] {
	return rapid.Custom(func(t *rapid.T) attempt {
		var a attempt
		for i := range rapid.IntRange(0, 3).Draw(t, "documents") {
			d := append(bson.D{{Key: "_id", Value: int32(i + 1)}}, document(t, 2, "a", "b", "c")...)
			a.documents = append(a.documents, d)
		}
		switch kind := pick(t, "kind", kinds...); kind {
		case "find":
			a.command = bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: filter(t, 1)}, {Key: "sort", Value: order(t, a.documents)}}
			p := projection(t)
			if rapid.IntRange(0, 2).Draw(t, "computed") == 0 {
				p = append(p, bson.E{Key: pick(t, "field", "d", "a", "d.e"), Value: expression(t, 1)})
			}
			if len(p) > 0 {
				a.command = append(a.command, bson.E{Key: "projection", Value: p})
			}
			if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
				a.command = append(a.command, bson.E{Key: "skip", Value: pick[any](t, "skip", int32(0), int32(1), int32(9), int32(-1))}, bson.E{Key: "limit", Value: pick[any](t, "limit", int32(0), int32(1), int32(2))})
			}
		case "aggregate":
			a.command = bson.D{{Key: "aggregate", Value: "c"}, {Key: "pipeline", Value: pipeline(t, false, a.documents)}, {Key: "cursor", Value: bson.D{}}}
		case "count":
			a.command = bson.D{{Key: "count", Value: "c"}, {Key: "query", Value: filter(t, 1)}}
		case "delete":
			a.command = bson.D{{Key: "delete", Value: "c"}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: filter(t, 1)}, {Key: "limit", Value: int32(0)}}}}}
		case "upsert":
			f := filter(t, 1)
			if rapid.Bool().Draw(t, "id") {
				f = append(bson.D{{Key: "_id", Value: pick[any](t, "id", int32(1), int32(9), "new")}}, f...)
			} else {
				f = append(f, bson.E{Key: "none", Value: int32(1)})
			}
			a.command = bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: f}, {Key: "u", Value: update(t)}, {Key: "upsert", Value: true}}}}}
		case "pipeline":
			a.command = bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "u", Value: pipeline(t, true, a.documents)}, {Key: "multi", Value: true}}}}}
		case "update":
			s := bson.D{{Key: "q", Value: filter(t, 1)}, {Key: "u", Value: update(t)}, {Key: "multi", Value: rapid.Bool().Draw(t, "multi")}}
			switch {
			case s[2].Value == false: // which one of several is open
				s[0].Value = bson.D{{Key: "_id", Value: int32(1)}}
			case rapid.Bool().Draw(t, "all"):
				s[0].Value = bson.D{}
			}
			if strings.Contains(fmt.Sprint(s), "$[i]") {
				s = append(s, bson.E{Key: "arrayFilters", Value: bson.A{bson.D{{Key: pick(t, "filter", "i", "i.b"), Value: condition(t, 0)}}}})
			}
			a.command = bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{s}}}
		case "modify":
			a.command = bson.D{{Key: "findAndModify", Value: "c"}, {Key: "query", Value: filter(t, 1)}, {Key: "update", Value: update(t)}, {Key: "sort", Value: order(t, a.documents)}, {Key: "new", Value: true}}
		case "unique":
			a.unique = bson.D{{Key: pick(t, "key", "a", "b"), Value: int32(1)}}
			a.command = bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{append(bson.D{{Key: "_id", Value: int32(9)}}, document(t, 2, "a", "b", "c")...)}}}
		}
		return a
	})
}

func (a attempt) String() string {
	text := ""
	for _, d := range append(slices.Clone(a.documents), any(a.command)) {
		json, err := bson.MarshalExtJSON(d, false, false)
		if err != nil {
			json = []byte(err.Error())
		}
		text += string(json) + "\n"
	}
	return text + fmt.Sprint("unique: ", a.unique)
}

// Random commands have the same outcome, the same reply and the same effect in memory
// and on the server, or are refused in memory by name. The commands are the same ones
// each time. To try others: DOCLOCK_RANDOM=10000 is the first, DOCLOCK_RANDOM_N=1000
// how many of each kind. Some of those differ, because DocumentDB computes in advance
// what MongoDB computes when it is needed.
func TestRandom(t *testing.T) {
	t.Parallel()
	from, n := setting("DOCLOCK_RANDOM", 0), setting("DOCLOCK_RANDOM_N", 50)
	for _, kind := range []string{"find", "count", "delete", "update", "modify", "upsert", "pipeline", "aggregate", "unique"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			memory, server := locktest.New().Client().Database("test"), mongotest.Database(t)
			all, known := attempts(kind), 0
			for i := from; i < from+n; i++ {
				a, name := all.Example(i), "c"
				if kind == "unique" || kind == "count" { // each has its index, and DocumentDB's count of all is an estimate
					name = fmt.Sprint("c", i)
				}
				inMemory := a.on(t, memory.Collection(name))
				if d := differ(a, inMemory, a.on(t, server.Collection(name))); d != "" {
					t.Errorf("%s %d\n%v\n%s", kind, i, a, d)
				}
				if inMemory.refused == "" {
					known++
				}
			}
			if known < n/4 {
				t.Errorf("memory executes only %d of %d", known, n)
			}
		})
	}
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func TestMain(m *testing.M) { mongotest.Main(m) }
