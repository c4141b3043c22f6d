package recorded_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/locktest/internal/recorded"
	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	mongoDB  = "testdata/mongodb-5.0.7/"
	ferretDB = "testdata/ferretdb-2.7.0/"
)

// memory is a new server in memory.
func memory() recorded.Server { return inMemory(store.New(), time.Unix(1, 0)) }

func inMemory(s *store.Store, now time.Time) recorded.Server {
	return func(command bson.D) (bson.Raw, error) {
		raw, err := bson.Marshal(append(command, bson.E{Key: "$db", Value: "test"}))
		if err != nil {
			return nil, err
		}
		return s.Run(now, value.Open(value.Doc(raw))).Value, nil
	}
}

func read[T any](t testing.TB, path string) []T {
	t.Helper()
	all, err := recorded.ReadFile[T](path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each operator makes in memory of each pair of values what MongoDB makes of it.
func TestOperatorsAreMongoDBs(t *testing.T) {
	t.Parallel()
	all := read[recorded.Operator](t, mongoDB+"operators.jsonl")
	values := recorded.Values(all)
	for _, o := range all {
		got, err := o.Now(values, func(r recorded.Recording) (recorded.Outcome, error) { return r.On(memory(), "c") })
		if err != nil {
			t.Fatal(err)
		}
		if !o.Equal(got) {
			t.Errorf("%s of %v\nis %v (%d) %s\nin memory %v (%d) %s", o.Op, o.Of, o.Is, o.Code, o.Text, got.Is, got.Code, got.Text)
		}
	}
}

// Each command that was recorded has in memory MongoDB's answer and its effect.
func TestCommandsAreMongoDBs(t *testing.T) {
	t.Parallel()
	for _, r := range read[recorded.Recording](t, mongoDB+"commands.jsonl") {
		got, err := r.On(memory(), "c")
		if err != nil {
			t.Fatal(err)
		}
		if differs := r.Differs(got); differs != "" {
			t.Error(differs)
		}
	}
}

// otherwise are the recordings of FerretDB that memory doesn't follow, because MongoDB's
// documentation or its source says otherwise, by kind and number.
var otherwise = []struct{ of, why string }{
	{"library 6 70 87 98", "a computed field has the place of the document's field of that name"},
	{"library 0 27 28 34 43 45 46 69 71 86 114 129 131 132, change 6 10 11 12 14 41 60 61 69 75 76 105 174", "an update that changes nothing counts as none"},
	{"folding 20, date 33", "an error undoes what was written before it"},
	{"refused 11", "a hint has no effect in memory"},
	{"refused 50", "MongoDB has no upsert by $expr"},
	{"refused 100 103 104, folding 57", "MongoDB takes no empty specification"},
	{"replacement 17 79 81", "the _id has the type of the new one, which is equal"},
	{"replacement 97, change 205", "the _id is stored twice"},
	{"folding 0 24 25 41 53 62 85 86", "constants are computed for a document, and MongoDB computes them before"},
	{"number 7 10 48 49 59 73 90, date 5 32 53 70", "a number is converted to an int, to be true or false"},
	{"number 33 56 81, date 51, change 142", "a sum has 15 digits of a double, in MongoDB all"},
	{"number 58", "an infinite number counts as changed"},
	{"number 93", "a long and a double are added as doubles, in MongoDB without rounding"},
	{"change 141", "a fraction of a millisecond is cut off the result, in MongoDB of the number"},
	{"change 150 151 152", "MongoDB has no path that is empty or has an empty name"},
	{"sort 4", "empty arrays come before null in both directions"},
	{"change 16", "new fields have the order of the update, in MongoDB that of their names"},
	{"date 11 55 96", "a date overflows"},
	{"date 65", "NaN is not less than all numbers"},
	{"name 16 19 48 92", "MongoDB has no $-prefixed name in a replacement"},
	{"name 39 68", "MongoDB has no sort by such a path"},
	{"name 44 95", "MongoDB lets an $unset find nothing"},
	{"name 13 24", "MongoDB has no $-prefixed name in a path"},
	{"name 85 87", "an upsert by such a path makes another document"},
}

// The kinds that were recorded on FerretDB alone are the same in memory, but for the codes
// of refusals, which are FerretDB's own, and for what is known to be otherwise.
func TestOtherKindsAreFerretDBs(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, o := range otherwise {
		for group := range strings.SplitSeq(o.of, ", ") {
			kind, numbers, _ := strings.Cut(group, " ")
			for n := range strings.FieldsSeq(numbers) {
				known[kind+" "+n] = true
			}
		}
	}
	for _, r := range read[recorded.Recording](t, ferretDB+"others.jsonl") {
		r.Code = 0
		got, err := r.On(memory(), "c")
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint(r.Kind, " ", r.N)
		if differs := r.Differs(got); differs != "" && !known[name] {
			t.Error(differs)
		} else if differs == "" && known[name] {
			t.Errorf("%s is the same now", name)
		}
	}
}
