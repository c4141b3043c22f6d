package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest/internal/recorded"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// some writes the first two recordings of each of these kinds to a file.
func some(t *testing.T, kinds ...string) (path string) {
	t.Helper()
	all, err := recorded.ReadFile[recorded.Recording](filepath.Join("..", "internal", "recorded", "testdata", "ferretdb-2.7.0", "others.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for _, r := range all {
		if r.N >= 2 || !slices.Contains(kinds, r.Kind) {
			continue
		}
		if err := recorded.Write(&lines, r); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "commands.jsonl")
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The server of DOCLOCK_TEST_URI is recorded, a line for each command; beside other
// recordings, nothing is written that is the same there.
func TestRecord(t *testing.T) {
	t.Setenv("DOCLOCK_TEST_URI", mongotest.URI(t))
	first, second := filepath.Join(t.TempDir(), "first"), t.TempDir()
	for _, r := range []recorder{{into: first, from: []string{some(t, "date", "library")}}, {into: second, beside: first, from: []string{some(t, "date", "library", "number")}}} {
		if err := r.run(t.Context()); err != nil {
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
