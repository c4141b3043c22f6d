package mutants

import (
	"context"
	"errors"
	"flag"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

const root = "../.."

var only = flag.String("only", "", "seed the mutants whose names match this pattern; a dot is all of them")

// seeds leaves a test to the proof, which compiles the library once for each mutant.
func seeds(t *testing.T) {
	t.Helper()
	if *only == "" {
		t.Skip("mutants are seeded by: go test ./proptest/mutants -args -only PATTERN")
	}
}

// An edit of the product must not disable a mutant silently: each applies, and compiles.
func TestMutantsApply(t *testing.T) {
	names, compiler := map[string]bool{}, newCompiler(t)
	for _, m := range All() {
		if names[m.Name] {
			t.Errorf("two mutants are called %q", m.Name)
		}
		names[m.Name] = true
		if m.Why == "" && m.Rule == 0 || m.Tests == "" || len(m.Packages) == 0 || m.Old == "" {
			t.Errorf("%s: something is left out", m.Name)
		}
		if tests, err := regexp.Compile(m.Tests); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		} else if !slices.ContainsFunc(testsOf(t, m.Packages[0]), tests.MatchString) {
			t.Errorf("%s: no test of %s is called %s", m.Name, m.Packages[0], m.Tests)
		}
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		mutated, err := m.apply(string(text))
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		} else if mutated == string(text) {
			t.Errorf("%s changes nothing", m.Name)
		} else if err := compiler.check(m.File, mutated); err != nil {
			t.Errorf("%s doesn't compile: %v", m.Name, err)
		}
	}
}

// compiler checks packages of the module with one file replaced. It takes what they import as it was compiled.
type compiler struct {
	types.Config
	files *token.FileSet
}

func newCompiler(t *testing.T) compiler {
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}")
	list.Dir = root
	for _, m := range All() {
		if dir := "./" + path.Dir(m.File); !slices.Contains(list.Args, dir) {
			list.Args = append(list.Args, dir)
		}
	}
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[pkg] = file
	}
	c := compiler{files: token.NewFileSet()}
	c.Importer = importer.ForCompiler(c.files, "gc", func(pkg string) (io.ReadCloser, error) { return os.Open(compiled[pkg]) })
	return c
}

func (c compiler) check(file, text string) error {
	dir, err := build.ImportDir(filepath.Join(root, path.Dir(file)), 0)
	if err != nil {
		return err
	}
	var all []*ast.File
	for _, name := range dir.GoFiles {
		var source any // the file's own text
		if name == path.Base(file) {
			source = text
		}
		parsed, err := parser.ParseFile(c.files, filepath.Join(dir.Dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, parsed)
	}
	_, err = c.Check(dir.ImportPath, c.files, all, nil)
	return err
}

// testsOf are the names of a package's tests.
func testsOf(t *testing.T, pkg string) (names []string) {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

// Every rule has a mutant.
func TestEveryRuleHasAMutant(t *testing.T) {
	broken := map[int][]string{}
	for _, m := range All() {
		broken[m.Rule] = append(broken[m.Rule], m.Name)
	}
	for rule := 1; rule <= Rules; rule++ {
		if len(broken[rule]) == 0 {
			t.Errorf("rule %d is broken by no mutant", rule)
		}
	}
}

func TestMutantsAreCaught(t *testing.T) {
	seeds(t)
	pattern, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	some := slices.DeleteFunc(All(), func(m Mutant) bool { return !pattern.MatchString(m.Name) })
	t.Setenv("MONGODB_URI", mongotest.URI(t))
	var counted tally.Tally
	if err := RunAll(t.Context(), root, some, &counted, os.Stderr); err != nil {
		t.Error(err)
	}
	for _, failure := range counted.Failures() {
		t.Error(failure)
	}
	if n := counted.Checks[Caught]; n != len(some) {
		t.Errorf("%d mutants have a verdict, of %d", n, len(some))
	}
}

// A run without a verdict is an error, and catches nothing.
func TestNoVerdict(t *testing.T) {
	seeds(t)
	harmless := Mutant{
		Name: "another constant", File: "relations/validate.go",
		Old: "MaxAllow = 10_000", New: "MaxAllow = 10_001",
		Packages: inRelations, Tests: "^TestKindString$",
	}
	for want, spoil := range map[string]func(*Mutant){
		"must have it once": func(m *Mutant) { m.Old = "func " },
		"doesn't compile":   func(m *Mutant) { m.New = `MaxAllow = "many"` },
		"no test of":        func(m *Mutant) { m.Tests = "^TestThatIsNotThere$" },
		"no such file":      func(m *Mutant) { m.File = "relations/nothing.go" },
	} {
		m := harmless
		spoil(&m)
		caughtBy, err := Run(t.Context(), root, m)
		if caughtBy != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("caught by %q, error %v; want one that says %q", caughtBy, err, want)
		}
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var counted tally.Tally
	if err := RunAll(ended, root, []Mutant{harmless}, &counted, io.Discard); !errors.Is(err, context.Canceled) || counted.Checks[Caught] > 0 {
		t.Errorf("with an ended context: %v, %d", err, counted.Checks[Caught])
	}
}

func TestFailure(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\n":                "TestA",
		"--- FAIL: TestA (0.00s)\npanic: oh [recovered]\n":                              "TestA (panic)",
		"panic: oh\n\ngoroutine 1 [running]:\n":                                         "panic",
		"panic: test timed out after 1s\nrunning tests:\n\tTestA/b (1s)\n\ngoroutine 1": "TestA (timeout)",
		"PASS\nmongotest: the tests have left goroutines behind: found 1\n":             "goroutines left behind",
		"exit status 3\n": "",
	} {
		if got := failure([]byte(out)).String(); got != want {
			t.Errorf("%q is read as %q, not %q", out, got, want)
		}
	}
}
