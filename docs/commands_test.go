package docs_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// notRun are commands in the pages that are no lines of .ci/run, by the reason.
var notRun = map[string][]string{
	"the steps race and memory run these tests": {
		"go test ./...",
		"DOCLOCK_TEST_MEMORY=1 go test .",
	},
	"examples/programs_test.go runs each example": {
		"go run ./examples/payment",
	},
	"the step checks runs it without the mutants": {
		"go test -C proptest/proof -count=1 -timeout 60m -v -run TestProof .",
	},
	"it runs for many minutes; a step runs it with smaller numbers": {
		"go test -C proptest/proof -v -timeout 5h -run TestHistories . -args -histories 100",
		"go test -C proptest/proof -v -timeout 1h -run TestClients . -args -clients 10m",
		"go test ./examples/contact/book -run 'TestApplication$' -timeout 1h -args -operations 10000",
		"go test ./examples/editform -run DoubleSaves -timeout 2h -args -rounds 10000",
		"go test ./admin -run '^$' -bench Scale -benchtime 1x -documents 100000 -timeout 30m -v",
		"go test -C cmd/doclock -run TestScale -v -documents 100000 .",
		"go run ./proptest/evaluation -mutants",
	},
	"it measures for minutes, on a quiet machine": {
		"go run -C bench . -markdown ../docs/performance-tables.md",
		"go run -C bench . -redraw ../docs/performance-tables.md",
		"go run -C bench . -case claim",
		"go test -run xxx -bench . ./internal/engine",
		"go test -C otel -run '^$' -bench 'Pair|Hot' -benchtime 1500x -count 3 .",
	},
	"it keeps a server running": {
		"go run ./internal/mongotest/serve",
	},
	"it needs Docker or a MongoDB: .github/workflows/ci.yml runs it": {
		".ci/test-against mongo:8",
		".ci/test-against mongo:8 members",
		".ci/test-against mongod",
		"MONGODB_URI=mongodb://… .ci/test-against",
		"HISTORIES=50 .ci/test-against mongo:7.0 sharded -- -run TestCheckServer",
	},
	"proptest/evaluation does it": {
		"npm ci",
	},
	"proptest/proof does it": {
		"npm test",
	},
}

var (
	program   = regexp.MustCompile(`^([A-Z_]+=\S* )*(\.ci/|go [a-z]+ \S|(git|docker|mongosh|npm|curl|cd|export|doclock) )`)
	remark    = regexp.MustCompile(`\s+# .*`)
	inTheLine = regexp.MustCompile("`([^`]+)`")
)

// commands finds commands in the pages that CI does not run.
func commands(page, text string) (problems []string) {
	if generated[page] != "" {
		return nil
	}
	lines := ciLines()
	for _, p := range parts(text) {
		for _, command := range shown(p) {
			step, ci := strings.CutPrefix(command, ".ci/run ")
			switch {
			case !program.MatchString(command):
				problems = append(problems, p.problem("%q is indented, and no command: use fences", command))
			case strings.HasPrefix(command, "doclock "): // cmd/doclock/docs_test.go checks these
			case lines[command], excused(command), command == ".ci/run", command == ".ci/release":
			case ci && (lines[step+"("] || lines[step]):
			default:
				problems = append(problems, p.problem("%q is no line of .ci/run", command))
			}
		}
	}
	return problems
}

// ciLines are the commands of .ci/run and .ci/release, and the names of their steps.
func ciLines() map[string]bool {
	between := regexp.MustCompile(`\n| (?:\|\||&&|>.*) |[{;]|\) `)
	found := map[string]bool{}
	for _, script := range []string{"../.ci/run", "../.ci/release"} {
		text, _ := os.ReadFile(script)
		for _, command := range between.Split(string(text), -1) {
			found[strings.TrimSpace(command)] = true
		}
	}
	return found
}

func excused(command string) bool {
	for _, commands := range notRun {
		if slices.Contains(commands, command) {
			return true
		}
	}
	return false
}

// shown are the commands in a part of a page.
func shown(p part) (found []string) {
	switch p.kind {
	case "```sh", "indented":
		for line := range strings.Lines(p.text) {
			if line = remark.ReplaceAllString(" "+strings.TrimSpace(line), ""); line != "" {
				found = append(found, strings.TrimSpace(line))
			}
		}
	case "prose":
		for _, m := range inTheLine.FindAllStringSubmatch(p.text, -1) {
			if command := strings.Join(strings.Fields(strings.ReplaceAll(m[1], `\|`, "|")), " "); program.MatchString(command) {
				found = append(found, command)
			}
		}
	}
	return found
}
