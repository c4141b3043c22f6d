package recorded_test

import (
	"errors"
	"flag"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest/internal/recorded"
)

const ferretDB = "testdata/ferretdb-2.7.0/"

var long = flag.Bool("long", false, "send all commands of the recordings to the server, and not the first ones")

// The tests' server does what MongoDB did, or what FerretDB was recorded to do in its
// own way: that recording is the list of the differences.
func TestServerIsAsRecorded(t *testing.T) {
	t.Parallel()
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
