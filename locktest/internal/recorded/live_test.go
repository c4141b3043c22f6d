package recorded_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest/internal/recorded"
)

var long = flag.Bool("long", false, "send all commands of the recordings to the server, and not the first ones")

// The tests' server does what MongoDB did, or what FerretDB was recorded to do in its
// own way: that recording is the list of the differences.
func TestServerIsAsRecorded(t *testing.T) {
	t.Parallel()
	mongotest.Real(t, "answers of its own")
	type id struct {
		kind string
		n    int
	}
	own := map[id]recorded.Recording{}
	byKind := map[string][]recorded.Recording{}
	for _, r := range read[recorded.Recording](t, ferretDB+"commands.jsonl") {
		own[id{r.Kind, r.N}] = r
	}
	for _, r := range read[recorded.Recording](t, mongoDB+"commands.jsonl") {
		byKind[r.Kind] = append(byKind[r.Kind], r)
	}
	for _, r := range read[recorded.Recording](t, ferretDB+"others.jsonl") {
		byKind[r.Kind] = append(byKind[r.Kind], r)
	}
	for kind, all := range byKind {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			if err := db.CreateCollection(t.Context(), "c"); err != nil { // FerretDB refuses more where there is none
				t.Fatal(err)
			}
			for i, r := range all {
				if i == 15 && !*long {
					break
				}
				got, err := r.OnServer(t.Context(), db)
				if errors.Is(err, recorded.ErrBefore) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				differs := r.Differs(got)
				if known, ok := own[id{r.Kind, r.N}]; ok && differs != "" {
					differs = known.Differs(got)
				}
				if differs != "" {
					t.Error(differs)
				}
			}
		})
	}
}

// So are its operators. Some of them are tried.
func TestServersOperatorsAreAsRecorded(t *testing.T) {
	t.Parallel()
	mongotest.Real(t, "operators of its own")
	name := func(o recorded.Operator) string { return fmt.Sprint(o.Op, o.Of) }
	own := map[string]recorded.Operator{}
	for _, o := range read[recorded.Operator](t, ferretDB+"operators.jsonl") {
		own[name(o)] = o
	}
	all := read[recorded.Operator](t, mongoDB+"operators.jsonl")
	values, db := recorded.Values(all), mongotest.Database(t)
	if err := db.CreateCollection(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	step := 97
	if *long {
		step = 7
	}
	for i := 0; i < len(all); i += step {
		got, err := all[i].Now(values, func(r recorded.Recording) (recorded.Outcome, error) { return r.OnServer(t.Context(), db) })
		if err != nil {
			t.Fatal(err)
		}
		if known, ok := own[name(got)]; !got.Equal(all[i]) && (!ok || !got.Equal(known)) {
			t.Errorf("%v is %v (%d), and was %v (%d)", name(got), got.Is, got.Code, all[i].Is, all[i].Code)
		}
	}
}
