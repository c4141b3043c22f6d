package history_test

import (
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/google/go-cmp/cmp"
)

var (
	file   = flag.String("history", "testdata/history.jsonl", "a history that a failed proof has kept")
	update = flag.Bool("update", false, "draw the picture in docs/proof.md anew")
)

const picture = "../../docs/img/timeline.svg"

// A history that is kept is checked and drawn, with -args -history FILE beside the file.
// The one in testdata was recorded in memory, and some of its polls were left out.
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
		svg := h.Timeline(d.ID)
		path := fmt.Sprintf("%s-%s.svg", *file, d.ID)
		if *file == flag.Lookup("history").DefValue {
			if was, err := os.ReadFile(picture); !*update && string(was) != svg {
				t.Errorf("%s is not as -args -update draws it (%v)", picture, err)
			}
			path = picture
		}
		if *update || path != picture {
			if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
				t.Error(err)
			}
			t.Log(path)
		}
	}
}

// A row begins with its caller and its entry. Bars and marks have titles, in the order of
// a row's bars and then of its marks.
func TestTimeline(t *testing.T) {
	refused := command(CommandAcquire, "b", 20, image(20, 10, held("a", 10, 10, 110)))
	again := command(CommandAcquire, "b", 30, image(30, 10, held("a", 10, 10, 110)))
	for name, test := range map[string]struct {
		story
		want []string
	}{
		"refused, and then held": {story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), refused, removal("a", 40, held("a", 10, 10, 110)), acquire("b", 112, 20, 212)}}, []string{
			"p0 write a: write a …10 unsure 0.009 to 0.012 s, ended by release; write a …10 held 0.012 to 0.039 s, ended by release;",
			"p0 write b: write b …20 unsure 0.022 to 0.114 s, expires; write b …20 held 0.114 to 0.212 s, expires; ⊘p0      acquire write b = at 0.020, fence …10: [write a …10 +90 ms];"}},
		"refused twice": {story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), refused, again}}, []string{
			"p0 write a: write a …10 unsure 0.009 to 0.012 s, expires; write a …10 held 0.012 to 0.110 s, expires;",
			"p0 write b: write b asks again; ⊘p0      acquire write b = at 0.020, fence …10: [write a …10 +90 ms];"}},
		"waits": {story{rules: queued, operations: []Operation{operation(Acquire, "b", 20, 55, Granted)},
			commands: []Command{read(20, 11, held("a", 10, 10, 110), waiting("b", 11, 150)), unanswered(command(CommandConfirm, "b", 50, nil)), read(115, 20, held("b", 11, 20, 160))}}, []string{
			"? write a: write a …10 held 0.022 to 0.110 s, expires;",
			"p0.0 write b: write b …20 waits 0.022 to 0.117 s, expires; write b …20 held 0.117 to 0.160 s, expires; ?p0      confirm write b = no answer;"}},
		"a release without an answer": {story{rules: exclusive, operations: []Operation{operation(Release, "a", 10, 50, Unknown)},
			commands: []Command{acquire("a", 10, 10, 110), guarded(CommandWrite, "a", 10, 20), unanswered(command(CommandRelease, "a", 40, nil))}}, []string{
			"p0.0 write a: write a …10 unsure 0.009 to 0.012 s, perhaps released; write a …10 held 0.012 to 0.039 s, perhaps released; write a …10 unsure 0.039 to 0.110 s, perhaps released;" +
				" ●p0      write write a …10 = found; ?p0      release write a = no answer; ?p0.0 CALL Release write a …10 = unknown;"}},
		"lost": {story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{operation(Renew, "a", 10, 150, Lost)}}, []string{
			"p0.0 write a: write a …10 unsure 0.009 to 0.012 s, expires; write a …10 held 0.012 to 0.110 s, expires; ✕p0.0 CALL Renew write a …10 = lost;"}},
		"two that exclude each other": {story{rules: exclusive, commands: []Command{read(10, 20, held("a", 10, 10, 110), held("b", 20, 20, 115))}}, []string{
			"? write a: write a …10 held 0.012 to 0.110 s, expires;", "? write b: write b …20 held 0.012 to 0.115 s, expires;",
			"two that exclude each other, 0.012 to 0.110 s", "two that exclude each other, 0.012 to 0.110 s", "violation at 0.012 s", "violation at 0.012 s"}},
		"two that don't": {story{rules: readers, commands: []Command{read(10, 20, reading(held("a", 10, 10, 110)), reading(held("b", 20, 20, 110)))}}, []string{
			"? read a: read a …10 held 0.012 to 0.110 s, expires;", "? read b: read b …20 held 0.012 to 0.110 s, expires;"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, drawn(t, test.history().Timeline("d"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// shape is a part of a picture.
type shape struct {
	Class string  `xml:"class,attr"`
	Title string  `xml:"title"`
	Text  string  `xml:",chardata"`
	Parts []shape `xml:",any"`
}

// drawn has a line for each row, and one for each part without a row that has a title.
func drawn(t *testing.T, svg string) (lines []string) {
	var whole shape
	if err := xml.Unmarshal([]byte(svg), &whole); err != nil {
		t.Fatal(err)
	}
	for _, part := range whole.Parts {
		switch {
		case part.Class == "row":
			line := part.Parts[0].Text + ":"
			for _, s := range part.Parts[1:] {
				if s.Title != "" {
					line += " " + s.Text + s.Title + ";"
				}
			}
			lines = append(lines, line)
		case part.Title != "":
			lines = append(lines, part.Title)
		}
	}
	return lines
}

func TestTheNewestAreKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var last string
	for range 45 {
		last = (&History{}).Keep()
	}
	kept, err := os.ReadDir(filepath.Dir(filepath.Dir(last)))
	if _, gone := os.Stat(last); err != nil || gone != nil || len(kept) != 40 {
		t.Errorf("%d are kept, and the last: %v, %v", len(kept), gone, err)
	}
}
