package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The figures in README.md are those of the tables in docs/performance.md.
func TestFigures(t *testing.T) {
	readme, page := strings.Join(strings.Fields(source(t, "README.md")), " "), source(t, "docs/performance.md")
	for row, figure := range map[string]string{
		"| `pair`: time, over two plain `findOneAndUpdate` | 1.25 | ": "%s times as long as two plain",
		"| `rmw`: time, over the optimistic loop | 1.4 | ":            "%s times as long as a version field's",
		"| `hot64`: throughput, over the optimistic loop | 5 | ":      "%s times as many changes",
		"| `idle`: commands of 100 waiters in 30 s | 130 | ":          "| %s commands in all",
		"| doclock | 1.4 | 2 | 1.52 | ":                               "| %s commands; 1.",
		"| doclock | 1.4 | 2 | 1.52 | 2 | 1254 | ":                    "| %s command a change",
		"| optimistic | | | 0.992 | 2 | 290 | ":                       "[sends %s commands a change]",
	} {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(row) + `([\d.]+) \|`).FindStringSubmatch(page)
		if m == nil {
			t.Errorf("docs/performance.md has no row %q", row)
			continue
		}
		if want := fmt.Sprintf(figure, m[1]); !strings.Contains(readme, want) {
			t.Errorf("README.md does not have %q", want)
		}
	}
}
