// Package proptest_test checks the list of bugs.
package proptest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var packageName = regexp.MustCompile("`([a-z/]+)`")

// Each row of BUGS.md ends with the packages of its tests, and these exist.
func TestLedgerNamesPackages(t *testing.T) {
	ledger, err := os.ReadFile("BUGS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(ledger)) {
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
