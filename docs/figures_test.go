package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The figures in README.md are those of the tables in docs/proof.md.
func TestFigures(t *testing.T) {
	readme, page := strings.Join(strings.Fields(source(t, "README.md")), " "), source(t, "docs/proof.md")
	for row, figure := range map[string]string{
		"| doclock | 1.4 (2) | 1.52 (2) | 1254 | ": "a change](docs/proof.md#figures), and doclock %s",
		"| optimistic | | 0.992 (2) | 290 | ":      "[sends %s commands a change]",
	} {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(row) + `([\d.]+) \|`).FindStringSubmatch(page)
		if m == nil {
			t.Errorf("docs/proof.md has no row %q", row)
			continue
		}
		if want := fmt.Sprintf(figure, m[1]); !strings.Contains(readme, want) {
			t.Errorf("README.md does not have %q", want)
		}
	}
}
