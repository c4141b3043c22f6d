package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	span      = regexp.MustCompile("`([^`]+)`")
	program   = regexp.MustCompile(`^([A-Z_]+=\S* )*(\.ci/|go [a-z]+ \S)`)
	goCommand = regexp.MustCompile(`\bgo (?:test|run) (?:-C (\S+) )?.*?(\./\S*|\.)(?: |$)`)
	pattern   = regexp.MustCompile(` -(?:run|bench) (?:'([^']*)'|(\S+))`)
	flagged   = regexp.MustCompile(` -([a-z]+)`)
	declared  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w*)`)
	remark    = regexp.MustCompile(`\s+# .*`)
)

// The tests that CI's script selects exist: one that was renamed would be left out, and nobody would notice.
func TestCommandsOfCI(t *testing.T) {
	for _, command := range regexp.MustCompile(`\bgo (?:test|run) [^;\n]*`).FindAllString(source(t, ".ci/run"), -1) {
		for _, problem := range unknown(command) {
			t.Errorf("%s: %s", command, problem)
		}
	}
	var tests strings.Builder
	for _, file := range git(t, "ls-files", "*_test.go") {
		tests.WriteString(source(t, file))
	}
	for _, list := range regexp.MustCompile(`\bTest\(([\w|]+)\)`).FindAllStringSubmatch(source(t, ".ci/run"), -1) {
		for name := range strings.SplitSeq(list[1], "|") {
			if !strings.Contains(tests.String(), "\nfunc Test"+name+"(") {
				t.Errorf("Test%s of %s isn't there", name, list[0])
			}
		}
	}
}

// commands finds what the commands of a page name and isn't there. The command line's module has a test for its own.
func commands(text string) (problems []string) {
	for _, command := range shown(text) {
		if word := misspelt(command); word != "" {
			problems = append(problems, command+": no program "+word)
		}
		if !program.MatchString(command) {
			continue
		}
		for _, problem := range unknown(command) {
			problems = append(problems, command+": "+problem)
		}
	}
	return problems
}

var (
	likeOurs = regexp.MustCompile(`^(\w+) (?:bench|build|fix|generate|get|install|mod|run|test|tool|vet|work|break|check|inspect|ls|sweep|watch)(?:\s|$)`)
	programs = []string{"doclock", "docker", "git", "go", "npm", "podman"}
	ofGo     = regexp.MustCompile(`^go (?:bench|build|doc|env|fix|fmt|generate|get|install|list|mod|run|test|tool|version|vet|work|-C)\b`)
)

// misspelt is the name of a program that is not one of ours but has a command as they do, or a command that go doesn't
// have.
func misspelt(command string) string {
	if strings.HasPrefix(command, "go ") && len(command) > 3 && !ofGo.MatchString(command) {
		return command
	}
	if m := likeOurs.FindStringSubmatch(command); m != nil && !slices.Contains(programs, m[1]) {
		return m[1]
	}
	return ""
}

// shown are what may be commands in a page: in a block of the shell, indented, or in a line.
func shown(text string) (found []string) {
	add := func(command string) {
		found = append(found, remark.ReplaceAllString(strings.TrimSpace(command), ""))
	}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[3]) {
			if m[2] == "sh" || program.MatchString(line) {
				add(line)
			}
		}
	}
	prose := fence.ReplaceAllString(text, "")
	for line := range strings.Lines(prose) {
		if strings.HasPrefix(line, "    ") {
			add(line)
		}
	}
	for _, m := range span.FindAllStringSubmatch(prose, -1) {
		add(strings.Join(strings.Fields(strings.ReplaceAll(m[1], `\|`, "|")), " "))
	}
	return found
}

// unknown finds what a command names and is not there. Of go commands it knows those for one package.
func unknown(command string) (problems []string) {
	const known = " args bench benchtime count cpuprofile memprofile parallel race run skip timeout v " // of go
	if _, script, found := strings.Cut(command, ".ci/"); found {
		return unknownStep(strings.Fields(script))
	}
	m := goCommand.FindStringSubmatch(command)
	if m == nil || strings.ContainsAny(command, "$*") && !strings.Contains(command, "'^$'") || strings.Contains(command, "...") {
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
			if one != "^$" && one != "xxx" && !slices.ContainsFunc(declared.FindAllStringSubmatch(code.String(), -1), named) {
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

// unknownStep finds a script of .ci that isn't there, or steps of .ci/run.
func unknownStep(words []string) (problems []string) {
	text, err := os.ReadFile("../.ci/" + words[0])
	if err != nil {
		return []string{err.Error()}
	}
	for _, step := range words[1:] {
		if words[0] == "run" && !regexp.MustCompile(`(?m)^`+step+`(\(\)|=\()`).Match(text) {
			problems = append(problems, "no step "+step)
		}
	}
	return problems
}
