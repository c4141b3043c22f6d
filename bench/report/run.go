package report

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/doclock/doclock/bench/cases"
	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/servers"
)

// Run is a finished run.
type Run struct {
	*cases.Run
	Began time.Time
	Took  time.Duration
	Load  string // of the machine, before the run
}

// Print prints everything as plain text.
func (r Run) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, line := range r.Setting() {
		fmt.Fprintln(out, line)
	}
	for _, t := range r.Tables() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		for _, row := range append([][]string{t.Head}, t.Rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// Setting names the machine and the servers, and the missing ones.
func (r Run) Setting() []string {
	kind := map[bool]string{true: "quick run", false: "full run"}[r.Quick]
	lines := []string{
		fmt.Sprintf("%s of %s, %.0f s", kind, r.Began.UTC().Format("2006-01-02 15:04 UTC"), r.Took.Seconds()),
		fmt.Sprintf("machine: %s; %d CPUs; load when it began: %s", servers.Machine(), runtime.NumCPU(), r.Load),
		fmt.Sprintf("client: %s, %s/%s; everything runs on this one machine", runtime.Version(), runtime.GOOS, runtime.GOARCH),
		"MongoDB: " + r.Servers.Mongo,
		fmt.Sprintf("cases with a latency in their names: the clients' dialers put a round trip of %s in front of every server",
			strings.ReplaceAll(strings.Trim(fmt.Sprint(cases.Latencies), "[]"), " ", ", ")),
	}
	var others []string
	for name, about := range r.Servers.Version {
		others = append(others, name+": "+about)
	}
	for name, why := range r.Servers.Absent {
		others = append(others, name+": ABSENT, its rivals were not measured: "+why)
	}
	return append(lines, slices.Sorted(slices.Values(others))...)
}

// Tables are the targets and the measurements, case by case.
func (r Run) Tables() []Table {
	all := []Table{r.targets()}
	for _, c := range cases.Plan() {
		t := Table{Title: fmt.Sprintf("%s: %s", c.Name, c.About),
			Head: []string{"subject", "ops", "commands/op", "p50 ms", "p99 ms", "ops/s", "ops/s, rounds"}}
		for _, key := range c.Columns {
			t.Head = append(t.Head, spelt(key))
		}
		t.Head = append(t.Head, "")
		for _, one := range r.Results {
			if one.Case == c.Name {
				t.Rows = append(t.Rows, row(one, c.Columns))
			}
		}
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

func (r Run) targets() Table {
	t := Table{Title: "What it must show", Head: []string{"what", "target", "measured", "rounds", "", ""}}
	for _, target := range cases.Targets(r.Results) {
		limit, rounds := "", ""
		if target.Sign != "" {
			limit = target.Sign + " " + number(target.Value)
		}
		if !target.Shown {
			t.Rows = append(t.Rows, []string{target.What, limit, "not run", "", "", ""})
			continue
		}
		if target.Lo != target.Hi {
			rounds = number(target.Lo) + "–" + number(target.Hi)
		}
		t.Rows = append(t.Rows, []string{target.What, limit, number(target.Mid), rounds, target.Verdict(target.Mid), target.Note})
	}
	return t
}

// row is a line of a case's table: its figures, its columns, and the rest as notes.
func row(one *measure.Result, columns []string) []string {
	cells := make([]string, 7, 8+len(columns))
	cells[0] = one.Subject
	if len(one.Rounds) > 0 {
		perOp, speed := one.Of(measure.Round.PerOp).Mid, one.Of(measure.Round.PerSecond)
		copy(cells[1:], []string{strconv.Itoa(len(one.Latencies())), number(perOp),
			number(measure.Micros(measure.Percentile(one.Latencies(), 50)) / 1000), number(measure.Micros(measure.Percentile(one.Latencies(), 99)) / 1000),
			number(speed.Mid), number(speed.Lo) + "–" + number(speed.Hi)})
		if perOp == 0 { // it was not counted
			cells[2] = ""
		}
	}
	for _, key := range columns {
		cells = append(cells, shown(one, key))
	}
	var notes []string
	for _, e := range one.Extra {
		if !slices.Contains(columns, e.Key) && !strings.HasSuffix(e.Key, measure.OfRounds) {
			notes = append(notes, fmt.Sprintf("%s %v", spelt(e.Key), e.Value))
		}
	}
	return append(cells, strings.Join(notes, ", "))
}

// shown is a case's extra value as text, with its spread if it has one, or nothing.
func shown(one *measure.Result, key string) string {
	if !slices.ContainsFunc(one.Extra, func(e measure.Extra) bool { return e.Key == key }) {
		return ""
	}
	s := one.Spread(key)
	text := number(s.Mid)
	if slices.ContainsFunc(one.Extra, func(e measure.Extra) bool { return e.Key == key+measure.OfRounds }) {
		text += " (" + number(s.Lo) + "–" + number(s.Hi) + ")"
	}
	return text
}

// spelt is a field of the JSON as people write it.
func spelt(key string) string { return strings.ReplaceAll(key, "_", " ") }

// number prints a figure with three digits.
func number(f float64) string { return strconv.FormatFloat(measure.Rounded(f), 'f', -1, 64) }
