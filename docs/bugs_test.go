package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var packageName = regexp.MustCompile("`([a-z/]+)`")

// Each row of BUGS.md ends with the packages of its tests, and these exist.
func TestLedgerNamesPackages(t *testing.T) {
	rows := 0
	for line := range strings.Lines(source(t, "proptest/BUGS.md")) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasSuffix(line, "|\n") || strings.HasPrefix(line, "| fault") {
			continue
		}
		rows++
		names := packageName.FindAllStringSubmatch(cells[2], -1)
		if len(names) == 0 {
			t.Errorf("no package: %s", line)
		}
		for _, name := range names {
			folder := filepath.Join("..", strings.TrimPrefix(name[1], "doclock"))
			if sources, err := filepath.Glob(filepath.Join(folder, "*.go")); err != nil || len(sources) == 0 {
				t.Errorf("%s is no package: %s", name[1], line)
			}
		}
	}
	if rows < 90 {
		t.Errorf("only %d rows", rows)
	}
}
