package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report is a run's results as text.
type report struct{ b *bench }

func newReport(b *bench) *report { return &report{b} }

// printJSON prints a line for each case and subject, and one for each missing
// server.
func (r *report) printJSON(w io.Writer) error {
	for _, one := range r.b.results {
		fields := append([]extra{
			{"case", one.kase}, {"subject", one.subject}, {"ops", one.ops()},
			{"commands_per_op", rounded(one.of(round.perOp).mid)},
			{"p50_us", rounded(micros(percentile(one.latencies(), 50)))},
			{"p99_us", rounded(micros(percentile(one.latencies(), 99)))},
			{"ops_per_s", rounded(one.of(round.perSecond).mid)},
			{"rounds", len(one.rounds)},
			{"p50_us_rounds", both(one.of(round.p50))},
			{"ops_per_s_rounds", both(one.of(round.perSecond))},
		}, one.extra...)
		var line bytes.Buffer
		for i, f := range fields {
			value, err := json.Marshal(f.value)
			if err != nil {
				return err
			}
			fmt.Fprintf(&line, "%s%q:%s", map[bool]string{true: "{", false: ","}[i == 0], f.key, value)
		}
		if _, err := fmt.Fprintf(w, "%s}\n", line.Bytes()); err != nil {
			return err
		}
	}
	for server, why := range r.b.servers.Absent {
		line, err := json.Marshal(map[string]string{"absent": server, "why": why})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

func both(s spread) [2]float64 { return [2]float64{rounded(s.lo), rounded(s.hi)} }

// rounded keeps three significant digits.
func rounded(f float64) float64 {
	if f == 0 || math.IsInf(f, 0) {
		return f
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(f))))
	if scale < 1 {
		return math.Round(f)
	}
	return math.Round(f*scale) / scale
}

// print prints everything as plain text.
func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, line := range r.setting() {
		fmt.Fprintln(out, line)
	}
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.title)
		for _, row := range append([][]string{t.head}, t.rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// table is a table of text, for any output format.
type table struct {
	title string
	head  []string
	rows  [][]string
}

// tables are the targets and the measurements, case by case.
func (r *report) tables() []table {
	all := []table{r.showings()}
	for _, c := range plan(r.b.latencies) {
		t := table{title: fmt.Sprintf("%s: %s", c.name, c.about),
			head: []string{"subject", "ops", "commands/op", "p50 ms", "p99 ms", "ops/s", "ops/s, rounds"}}
		for _, key := range c.columns {
			t.head = append(t.head, spelt(key))
		}
		t.head = append(t.head, "")
		for _, one := range r.b.results {
			if one.kase != c.name {
				continue
			}
			row := make([]string, len(t.head))
			row[0] = one.subject
			var notes []string
			for _, e := range one.extra {
				if i := slices.Index(c.columns, e.key); i >= 0 {
					row[7+i] = one.shown(e.key)
				} else if !strings.HasSuffix(e.key, ofRounds) {
					notes = append(notes, fmt.Sprintf("%s %v", spelt(e.key), e.value))
				}
			}
			row[len(row)-1] = strings.Join(notes, ", ")
			if len(one.rounds) > 0 {
				speed := one.of(round.perSecond)
				copy(row[1:], []string{fmt.Sprint(one.ops()), orNothing(one.of(round.perOp).mid),
					number(micros(percentile(one.latencies(), 50)) / 1000), number(micros(percentile(one.latencies(), 99)) / 1000),
					number(speed.mid), number(speed.lo) + "–" + number(speed.hi)})
			}
			t.rows = append(t.rows, row)
		}
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// ofRounds ends the name of the spread of what has the name before it.
const ofRounds = "_rounds"

// spelt is a field of the JSON as people write it.
func spelt(key string) string { return strings.ReplaceAll(key, "_", " ") }

// shown is a case's extra value as text, with its spread if it has one.
func (r *result) shown(key string) string {
	text := number(r.number(key))
	for _, e := range r.extra {
		if s, spread := e.value.([2]float64); spread && e.key == key+ofRounds {
			text += " (" + number(s[0]) + "–" + number(s[1]) + ")"
		}
	}
	return text
}

// number prints a figure with three digits.
func number(f float64) string { return strconv.FormatFloat(rounded(f), 'f', -1, 64) }

// orNothing leaves out a value that was not counted.
func orNothing(f float64) string {
	if f == 0 {
		return ""
	}
	return number(f)
}
