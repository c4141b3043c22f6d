package docs_test

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The packages, the tests and the flags that commands name exist, also of commands that nothing runs.
func TestCommandsNameWhatThereIs(t *testing.T) {
	all := slices.Concat(slices.Collect(maps.Values(notRun))...)
	for _, command := range slices.AppendSeq(all, maps.Keys(ciLines())) {
		for _, problem := range unknown(command) {
			t.Errorf("%s: %s", command, problem)
		}
	}
	for command, want := range map[string]string{
		"go test -C otels -bench Observe .":                           "no package",
		"go test -C otel -bench Observed .":                           "no test",
		"go test -run 'TestReads$|TestWrite$' ./locktest":             "no test",
		"go run -C bench . -cases claim":                              "no flag",
		"go test ./proptest/simulation -run InMemory -args -firsts 7": "no flag",
	} {
		if found := strings.Join(unknown(command), ", "); !strings.Contains(found, want) {
			t.Errorf("%s: %q, want %q", command, found, want)
		}
	}
}

var (
	goCommand = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*go (?:test|run) (?:-C (\S+) )?.*?(\./\S*|\.)(?: |$)`)
	pattern   = regexp.MustCompile(` -(?:run|bench) (?:'([^']*)'|(\S+))`)
	flagged   = regexp.MustCompile(` -([a-z]+)`)
	declared  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w*)`)
)

// unknown finds what a command for one package names and is not there.
func unknown(command string) (problems []string) {
	const known = " args bench benchtime count cpuprofile memprofile modfile parallel race run skip timeout v " // of go
	const none = "- xxx ^$"                                                                                     // patterns
	m := goCommand.FindStringSubmatch(command)
	if m == nil || strings.Contains(command, "...") || strings.Contains(command, "$mod") {
		return nil
	}
	files, _ := filepath.Glob(path.Join("..", m[1], m[2], "*.go"))
	if files == nil {
		return []string{"no package " + path.Join(m[1], m[2])}
	}
	var code strings.Builder
	for _, file := range files {
		text, _ := os.ReadFile(file)
		code.Write(text)
	}
	for _, m := range pattern.FindAllStringSubmatch(command, -1) {
		for one := range strings.SplitSeq(m[1]+m[2], "|") {
			named := func(m []string) bool { return regexp.MustCompile(one).MatchString(m[1]) }
			if !strings.Contains(none, one) && !slices.ContainsFunc(declared.FindAllStringSubmatch(code.String(), -1), named) {
				problems = append(problems, "no test "+one)
			}
		}
	}
	for _, m := range flagged.FindAllStringSubmatch(pattern.ReplaceAllString(command, ""), -1) {
		if !strings.Contains(known, " "+m[1]+" ") && !strings.Contains(code.String(), `"`+m[1]+`"`) {
			problems = append(problems, "no flag "+m[1])
		}
	}
	return problems
}
