package recorded_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/doclock/doclock/locktest/internal/recorded"
	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const mongoDB = "testdata/mongodb-5.0.7/"

// memory is a new server in memory.
func memory() recorded.Server {
	s := store.New()
	return func(command bson.D) (bson.Raw, error) {
		raw, err := bson.Marshal(append(command, bson.E{Key: "$db", Value: "test"}))
		if err != nil {
			return nil, err
		}
		return s.Run(time.Unix(1, 0), value.Open(value.Doc(raw))).Value, nil
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
		r, err := o.Recording(values)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := r.On(memory(), "c")
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.With(outcome)
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

// What was recorded is what is drawn: more recordings come of the same commands.
func TestRecordedIsDrawn(t *testing.T) {
	t.Parallel()
	for _, r := range read[recorded.Recording](t, mongoDB+"commands.jsonl") {
		if r.N >= 10 {
			continue
		}
		drawn, err := recorded.Draw(r.Kind, r.N)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(drawn.Command, r.Command) {
			t.Errorf("%s %d is now %v, and was %v", r.Kind, r.N, drawn.Command, r.Command)
		}
	}
}
