package main

import (
	"path/filepath"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest/internal/recorded"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The server of DOCLOCK_TEST_URI is recorded, a line for each command; beside other
// recordings, nothing is written that is the same there.
func TestRecord(t *testing.T) {
	t.Setenv("DOCLOCK_TEST_URI", mongotest.URI(t))
	first, second := filepath.Join(t.TempDir(), "first"), t.TempDir()
	for _, r := range []recorder{{into: first, kinds: []string{"date", "library"}}, {into: second, beside: first, kinds: []string{"date", "library", "number"}}} {
		if err := r.run(t.Context(), "", 3, 2); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]int{first: 4, second: 2} {
		all, err := recorded.ReadFile[recorded.Recording](filepath.Join(dir, "commands.jsonl"))
		if err != nil || len(all) != want || len(all[0].Documents) == 0 || all[0].Reply == nil && all[0].Message == "" {
			t.Errorf("%d lines, want %d, and %v: %v", len(all), want, err, all)
		}
	}
}
