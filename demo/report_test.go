package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// README.md shows the end of a run. It is as the program writes it for these numbers.
func TestReadmeShowsTheReport(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)compares this -->\n```\n( +without locks.*?)```\n").FindStringSubmatch(string(page))
	if shown == nil {
		t.Fatal("README.md has no report")
	}
	// column reads the numbers of one of the two runs.
	column := func(i int) result {
		numbers := map[string]float64{}
		for _, m := range regexp.MustCompile(`(?m)^ +(\S.*?) +([\d.]+) +([\d.]+)$`).FindAllStringSubmatch(shown[1], -1) {
			n, err := strconv.ParseFloat(m[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers[m[1]] = n
		}
		r := result{counts: map[string]int{}}
		for _, what := range append(endings, operations, conflicts) {
			r.counts[what] = int(numbers[what])
		}
		r.Contacts, r.Dangling = int(numbers["contacts found by a full scan"]), int(numbers["DANGLING REFERENCES"])
		seconds := numbers["operations"] / numbers["operations a second"]
		r.took = time.Duration(seconds * float64(time.Second))
		r.counts[commands] = int(numbers["commands a second"] * seconds)
		return r
	}
	r := report{without: column(2), with: column(3), late: lateWriteResult{leftOut: true}}
	r.judge()
	want := r.table() + "\n" + strings.Join(r.verdict, "\n") + "\n"
	if diff := cmp.Diff(want, shown[1]); diff != "" || !r.good {
		t.Errorf("(-) as the program writes it, (+) as README.md has it:\n%s", diff)
	}
}
