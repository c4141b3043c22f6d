package history_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/history/byhand"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stories are those of a file. All properties accept the histories that are similar.
func stories(t *testing.T) []byhand.Story {
	t.Helper()
	text, err := os.ReadFile("testdata/histories.txt")
	if err != nil {
		t.Fatal(err)
	}
	return byhand.Stories(string(text))
}

// Each property refuses one history, and accepts a similar one.
func TestTheCheckerRefuses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	all, checked := stories(t), map[string]int{}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			var refused, accepted tally.Tally
			s.Refused.Check(&refused)
			if !slices.ContainsFunc(slices.Collect(maps.Keys(refused.Violations)), s.IsOf) {
				t.Errorf("not refused by %q; by others: %q", s.Property, refused.Details)
			}
			s.Accepted.Check(&accepted)
			maps.Copy(checked, accepted.Checks)
			if len(accepted.Violations) > 0 {
				t.Errorf("its twin is refused: %q", accepted.Details)
			}
		})
	}
	for p := range checked {
		if !slices.ContainsFunc(all, func(s byhand.Story) bool { return s.IsOf(p) }) {
			t.Errorf("no history is refused by %q", p)
		}
	}
}

// The first violation of a document has its operations and commands with it.
func TestViolationPrintsItsDocument(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := byhand.History("rules exclusive; 10 acquire aaaaaaaaaaaa = 10 aaaaaaaaaaaa#10-110; 50 acquire b = 20 b#20-150",
		"60 release b#20 ?; 50 Acquire b#20 granted; 60 Release b#20 unknown")
	var counts tally.Tally
	h.Check(&counts)
	if len(counts.Details) == 0 {
		t.Fatal("no violation")
	}
	first := counts.Details[0]
	for _, line := range []string{
		"acquire write aaaaaaaa = at 0.010, fence …10: [write aaaaaaaa …10 +100 ms]",
		"p0.0 CALL Acquire write b …20 = granted",
		"---- the violation ----",
		"p0.0 CALL Release write b …20 = unknown",
		"release write b …20 = no answer",
	} {
		i := strings.Index(first, line)
		if i < 0 {
			t.Fatalf("no line %q after those before in:\n%s", line, first)
		}
		first = first[i:]
	}
	_, where, _ := strings.Cut(counts.Details[0], "all of them: ")
	where, _, _ = strings.Cut(where, "\n")
	for name, want := range map[string]string{"d.txt": "CALL Release write b …20", "history.jsonl": `"kind":"Release"`} {
		whole, err := os.ReadFile(filepath.Join(where, name))
		if err != nil || !strings.Contains(string(whole), want) {
			t.Errorf("%s has no %s: %q, %v", name, want, whole, err)
		}
	}
}

// A possible event is no violation, and it doesn't hide a certain one.
func TestUnknownIsEither(t *testing.T) {
	h := byhand.History("rules exclusive; log 10/w1; 5 acquire a ?; 10 acquire a = 10 a#10-110; 120 acquire b = 20 b#20-220",
		"20 write a#10 ?; 130 renew a#10 ?; 20 Update a#10 w1 unknown")
	h.Operations = append(h.Operations, Operation{Document: "d", Number: 1, Kind: Release, ID: "a", Fence: 10, Call: 130_000_000})
	var counts tally.Tally
	h.Check(&counts)
	if len(counts.Violations) > 0 {
		t.Errorf("refused: %q", counts.Details)
	}
}

func TestEncode(t *testing.T) {
	h := stories(t)[0].Refused
	h.Faults = map[string]int{"reply lost": 2}
	var text bytes.Buffer
	if err := h.Encode(&text); err != nil {
		t.Fatal(err)
	}
	got, err := Decode(&text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got); diff != "" {
		t.Error(diff)
	}
}

var file = flag.String("history", "testdata/history.jsonl", "a history that a failed proof has kept")

// A history that is kept is checked again, and its transcripts are shown. The one in
// testdata was recorded in memory, and some of its polls were left out.
func TestKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f, err := os.Open(*file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	var counts tally.Tally
	h.CheckSafety(&counts)
	for _, failure := range counts.Failures() {
		t.Error(failure)
	}
	for _, d := range h.Documents {
		transcript := h.Transcript(d.ID)
		if lines := strings.Count(transcript, "\n"); lines < 2 {
			t.Errorf("the transcript of %s has %d lines", d.ID, lines)
		}
		t.Log(transcript)
	}
}

func TestTheNewestAreKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var last string
	for range 45 {
		last = (&History{}).Keep()
	}
	kept, err := os.ReadDir(filepath.Dir(last))
	if _, gone := os.Stat(last); err != nil || gone != nil || len(kept) != 40 {
		t.Errorf("%d are kept, and the last: %v, %v", len(kept), gone, err)
	}
}
