package docs_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// The figures in the text of docs/performance.md are those of docs/performance-tables.md.
func TestPerformanceHasTheFigures(t *testing.T) {
	page := strings.Join(strings.Fields(source(t, "docs/performance.md")), " ")
	tables := source(t, "docs/performance-tables.md")
	for row, text := range map[string]string{
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
	} {
		figure, _ := strconv.ParseFloat(measured(t, tables, row), 64)
		if want := fmt.Sprintf(text, figure); !strings.Contains(page, want) {
			t.Errorf("docs/performance.md does not have %q", want)
		}
	}
}
