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
	"github.com/doclock/doclock/proptest/tally"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Histories written by hand. Times are milliseconds from an arbitrary start.
// The read at 0 in each of them says that the process's clock is the server's,
// with an error of a millisecond.

const start = 1_000_000

func ns(ms int64) int64 { return (start + ms) * 1_000_000 }

var (
	exclusive = Rules{"write": {"write": {}}}
	queued    = Rules{"write": {"write": {Assertive: true}}}
	readers   = Rules{"read": {"write": {}}, "write": {"read": {Assertive: true}, "write": {}}}
	mixed     = Rules{"write": {"write": {}, "read": {}}, "read": {}}
	two       = Rules{"write": {"write": {Allow: 1}}}
)

func image(now, fence int64, entries ...Entry) *Image {
	return &Image{Now: start + now, Fence: fence, Entries: entries}
}

func held(id string, seq, fence, expires int64) Entry {
	return Entry{Tag: "write", ID: id, Seq: seq, Fence: fence, Since: start, Expires: start + expires}
}

func waiting(id string, seq, expires int64) Entry { return held(id, seq, 0, expires) }

func reading(e Entry) Entry {
	e.Tag = "read"
	return e
}

// command took 2 ms; its image was made in that time.
func command(kind, id string, at int64, img *Image) Command {
	return Command{Kind: kind, Tag: "write", ID: id, Sent: ns(at - 1), Answered: ns(at + 1), Matched: true, Image: img}
}

// read is a linearizable one.
func read(at, fence int64, entries ...Entry) Command {
	c := command(CommandRead, "", at, image(at, fence, entries...))
	c.Newest = true
	return c
}

// acquire is granted, and its image has no other entry.
func acquire(id string, at, fence, expires int64) Command {
	return command(CommandAcquire, id, at, image(at, fence, held(id, fence, fence, expires)))
}

func guarded(kind, id string, fence, at int64) Command {
	c := command(kind, id, at, nil)
	c.Fence = fence
	return c
}

// handoff is answered with the image, as the successor's.
func handoff(id string, fence, at int64, successor string, img *Image) []Command {
	h := command(CommandAcquire, successor, at, img)
	h.Handed = true
	return []Command{guarded(CommandRelease, id, fence, at), h}
}

func unanswered(c Command) Command {
	c.Answered, c.Matched = 0, false
	return c
}

func operation(kind, id string, fence, at int64, outcome string) Operation {
	return Operation{Kind: kind, Tag: "write", ID: id, Fence: fence, Call: ns(at - 1), Return: ns(at + 1), Outcome: outcome}
}

func look(id string, fence, at, remaining int64) Operation {
	o := operation(Look, id, fence, at, StillValid)
	if o.Remaining = remaining * 1_000_000; remaining == 0 {
		o.Outcome = Over
	}
	return o
}

func write(name string, fence, at int64, outcome string) Operation {
	o := operation(Update, "a", fence, at, outcome)
	o.Write = name
	return o
}

func lostToken(at int64) Operation {
	o := operation(Touch, "", 0, at, Lost)
	o.Key = "k"
	return o
}

func removal(id string, at int64, own Entry) Command {
	c := command(CommandRelease, id, at, nil)
	c.Own = &own
	return c
}

func TestTheCheckerRefuses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	covered, checked := map[string]bool{}, map[string]int{}
	for _, s := range slices.Concat(stories, handoffs, terms) {
		covered[s.property] = true
		t.Run(s.name, func(t *testing.T) {
			var rejected, accepted tally.Tally
			s.rejected.history().Check(&rejected)
			if rejected.Violations[s.property] == 0 {
				t.Errorf("not refused by %q; by others: %q", s.property, rejected.Details)
			}
			s.accepted.history().Check(&accepted)
			maps.Copy(checked, accepted.Checks)
			if len(accepted.Violations) > 0 {
				t.Errorf("its twin is refused: %q", accepted.Details)
			}
		})
	}
	for p := range checked {
		if !covered[p] {
			t.Errorf("no history is refused by %q", p)
		}
	}
}

// The first violation of a document has its operations and commands with it.
func TestViolationPrintsItsDocument(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := story{rules: exclusive, commands: []Command{acquire("aaaaaaaaaaaa", 10, 10, 110), acquire("b", 50, 20, 150), unanswered(guarded(CommandRelease, "b", 20, 60))},
		operations: []Operation{operation(Acquire, "b", 20, 50, Granted), operation(Release, "b", 20, 60, Unknown)}}
	var counts tally.Tally
	s.history().Check(&counts)
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
	late := unanswered(command(CommandAcquire, "a", 5, nil))
	s := story{rules: exclusive, log: []string{"10/w1"}, commands: []Command{late, acquire("a", 10, 10, 110), acquire("b", 120, 20, 220),
		unanswered(guarded(CommandWrite, "a", 10, 20)), unanswered(guarded(CommandRenew, "a", 10, 130))},
		operations: []Operation{write("w1", 10, 20, Unknown), {Kind: Release, ID: "a", Fence: 10, Call: ns(130)}}}
	var counts tally.Tally
	s.history().Check(&counts)
	if len(counts.Violations) > 0 {
		t.Errorf("refused: %q", counts.Details)
	}
}

func TestEncode(t *testing.T) {
	h := stories[0].rejected.history()
	h.Faults = map[string]int{"reply lost": 2}
	var text bytes.Buffer
	if err := h.Encode(&text); err != nil {
		t.Fatal(err)
	}
	got, err := Decode(&text)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(h.Commands, func(a, b Command) int { return int(a.Number - b.Number) })
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
