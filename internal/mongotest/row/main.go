// Row prints a row of the table in docs/servers.md, from what `go test -json` of the tests and of TestHistories gives it
// on its standard input. Without arguments it prints the table's head.
//
//	row SERVER KIND STEP-DOWNS
//
// It prints the output of what failed to standard error, and fails if anything did.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

const head = `| server | kind | passed | failed | skipped | histories: operations | violations | step-downs |
|---|---|---|---|---|---|---|---|
`

// event is one of test2json's.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a build
}

// result is what the events say. It counts a test without its parts, but each part that was skipped.
type result struct {
	passed, failed, skipped int
	reasons                 map[string]int // of the skipped
	operations, violations  string
	failures                strings.Builder
}

var (
	histories = regexp.MustCompile(`histories: (\d+) operations, (\d+) violations`)
	reason    = regexp.MustCompile(`^\s*\w+\.go:\d+: (.+)\n`)
)

func main() {
	if len(os.Args) != 4 {
		fmt.Print(head)
		return
	}
	r, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "row:", err)
		os.Exit(1)
	}
	fmt.Printf("| %s | %s | %d | %d | %s | %s | %s | %s |\n",
		os.Args[1], os.Args[2], r.passed, r.failed, r.skips(), r.operations, r.violations, os.Args[3])
	fmt.Fprint(os.Stderr, r.failures.String())
	if r.failed > 0 || r.passed == 0 || r.violations != "0" {
		os.Exit(1)
	}
}

func read(in io.Reader) (*result, error) {
	r := &result{reasons: map[string]int{}, operations: "none", violations: "none"}
	outputs := map[string][]string{} // of a test or package
	broken := map[string]bool{}      // packages with a failed test
	for events := json.NewDecoder(in); ; {
		var e event
		if err := events.Decode(&e); err == io.EOF {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		name := strings.TrimSpace(e.Package + e.ImportPath + " " + e.Test)
		part := strings.Contains(e.Test, "/")
		switch e.Action {
		case "output", "build-output":
			outputs[name] = append(outputs[name], e.Output)
			if m := histories.FindStringSubmatch(e.Output); m != nil {
				r.operations, r.violations = m[1], m[2]
			}
		case "pass":
			if e.Test != "" && !part {
				r.passed++
			}
		case "skip":
			if e.Test != "" {
				r.skipped++
				r.reasons[why(outputs[name])]++
			}
		case "fail", "build-fail":
			fmt.Fprintf(&r.failures, "FAIL %s\n%s", name, strings.Join(outputs[name], ""))
			// A package can fail without a test: in its build or its TestMain.
			if e.Action == "fail" && !part && (e.Test != "" || !broken[e.Package]) {
				r.failed++
				broken[e.Package] = true
			}
		}
	}
}

// why is the last line that a skipped test logged.
func why(output []string) string {
	for _, line := range slices.Backward(output) {
		if m := reason.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return "no reason"
}

// skips is a cell: the number, and each reason with its own.
func (r *result) skips() string {
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", r.reasons[reason], strings.ReplaceAll(reason, "|", `\|`)))
	}
	if r.skipped == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: %s", r.skipped, strings.Join(reasons, "; "))
}
