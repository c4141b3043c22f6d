// Package proptest_test checks the list of bugs.
package proptest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testName = regexp.MustCompile("`(Test\\w+)`")

// Each test that BUGS.md names exists.
func TestLedgerNamesTests(t *testing.T) {
	ledger, err := os.ReadFile("BUGS.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := testName.FindAllStringSubmatch(string(ledger), -1)
	if len(names) < 15 {
		t.Fatalf("only %d tests named", len(names))
	}
	for _, name := range names {
		if !strings.Contains(sources.String(), "func "+name[1]+"(") {
			t.Errorf("%s is in BUGS.md, but not in the tests", name[1])
		}
	}
}
