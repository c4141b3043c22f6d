package docs_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The figures in the text of README.md and of docs/performance.md are those of docs/performance-tables.md.
func TestFigures(t *testing.T) {
	tables := source(t, "docs/performance-tables.md")
	_, hot, _ := strings.Cut(tables, "### hot64:")
	optimistic := regexp.MustCompile(`(?m)^\| optimistic \| \d+ \| ([\d.]+) \|`).FindStringSubmatch(hot)
	if optimistic == nil || !strings.Contains(source(t, "README.md"), "[sends "+optimistic[1]+" commands a change]") {
		t.Errorf("README.md does not have the commands of the version field, %q", optimistic)
	}
	for page, figures := range map[string]map[string]string{
		"README.md": {
			"1. pair: time, over two plain findOneAndUpdate": "%g times as long as two plain",
			"2. rmw: commands": "| %g commands; 1.",
			"2. rmw: time, over the optimistic version loop":       "%g times as long as a version field's",
			"3. hot64: commands per critical section":              "| %g command a change",
			"3. hot64: throughput, over the optimistic loop":       "%g times as many changes",
			"5. idle 30 s: commands of 100 waiters in one process": "| %g commands in all",
		},
		"docs/performance.md": {
			"1. pair: time, over two plain findOneAndUpdate":                                      "an acquire and a release take %.2g times that",
			"2. rmw: time, over the optimistic version loop":                                      "A read-modify-write takes %.3g times the optimistic",
			"2. rmw: time, over the fastest other lock in MongoDB":                                "and %.2g times the fastest other lock",
			"3. hot64: throughput, over one client's plain $incs one after another":               "64 goroutines reach %.2f of",
			"3. hot64: throughput, over the optimistic loop":                                      "%.2g times the optimistic loop",
			"3. hot64: throughput, over the fastest polling rival in MongoDB":                     "and %.1g times the fastest poller",
			"3. hot64: the slowest goroutine's share of the mean, worst round":                    "The slowest goroutine has %.2g of the mean",
			"4. processes: throughput, over hot64":                                                "16 goroutines reach %.2g of one process's",
			"4. processes: the slowest process's share of its fair share, worst round":            "had %.2g of its fair share",
			"5. idle 30 s: commands of 100 waiters in one process":                                "A hundred waiters of one process send %g commands",
			"10. network of 1ms: pair: time, over two plain findOneAndUpdate":                     "%.3g times as much over 1 ms",
			"10. network of 5ms: pair: time, over two plain findOneAndUpdate":                     "and %.3g over 5 ms",
			"10. network of 1ms: hot64: throughput, over the optimistic loop":                     "%.2g times its throughput over 1 ms",
			"10. network of 5ms: hot64: throughput, over the optimistic loop":                     "%.2g times over 5 ms",
			"9. claim: commands per claim, without the final write":                               "| commands a claim | 1.5 | %g |",
			"9. claim: commands of a lone claimant beside 24, per claim":                          "| 2.2 | %g |",
			"9. claim: places off (documents of higher priority that were claimed later), median": "| places off, median | 32 | %g |",
			"9. claim: the same, worst":                                                           "| places off, worst | 128 | %g |",
			"9. claim: places off of a lone claimant beside 24, worst":                            "| 2 | %g |",
			"9. claim: documents of lower priority that were claimed before, worst":               "| overtaken, worst | 192 | %g |",
		},
	} {
		text := strings.Join(strings.Fields(source(t, page)), " ")
		for row, figure := range figures {
			m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| [^|]* \| ([\d.]+) \|`).FindStringSubmatch(tables)
			if m == nil {
				t.Errorf("docs/performance-tables.md has no row %q", row)
				continue
			}
			measured, err := strconv.ParseFloat(m[1], 64)
			must(t, err)
			if want := fmt.Sprintf(figure, measured); !strings.Contains(text, want) {
				t.Errorf("%s does not have %q", page, want)
			}
		}
	}
}
