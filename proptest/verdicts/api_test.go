package verdicts

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// silent are the calls that can fail, and send nothing: their error is of an argument,
// or what is known already.
var silent = []string{
	"New", "Err", "WantError.Unwrap", "Entry.MarshalJSON", "Entry.UnmarshalJSON", "Lock.MarshalJSON", "ApplyLocker", "ApplyAcquire", "LockOf",
	"Unlock", // of an interface without a public name
}

// Each public call that can fail has a row, or sends nothing.
func TestEveryCallHasARow(t *testing.T) {
	var rows []string
	for _, calls := range [][]call{acquires, ofTickets, underLeases, functions, byOperators} {
		for _, c := range calls {
			rows = append(rows, c.name)
		}
	}
	seen := 0
	for _, dir := range []string{"../..", "../../multilock", "../../writelock", "../../admin"} {
		for _, call := range failing(t, dir) {
			seen++
			_, method, isMethod := strings.Cut(call, ".")
			named := func(row string) bool { return row == call || isMethod && row == method }
			if !slices.ContainsFunc(rows, named) && !slices.Contains(silent, call) {
				t.Errorf("%s: %s can fail, and has no row; the rows are %q", dir, call, rows)
			}
		}
	}
	if seen < 45 {
		t.Errorf("the packages have only %d calls that can fail", seen)
	}
}

// failing are the exported functions and methods of a package whose results have an
// error in them. Each declaration is a line; those of an interface are indented.
func failing(t *testing.T, dir string) (calls []string) {
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range fails.FindAllStringSubmatch(string(text), -1) {
			if of, call := found[1], found[2]; !strings.HasSuffix(file, "_test.go") && (of == "" || ast.IsExported(of)) {
				calls = append(calls, strings.TrimPrefix(of+"."+call, "."))
			}
		}
	}
	return calls
}

var fails = regexp.MustCompile(`(?m)^(?:func (?:\(\w+ \*?(\w+)\) )?|\t)([A-Z]\w*)\(.*\) \(?[^()]*\berror\b[^()]*\)?(?: \{.*)?$`)
