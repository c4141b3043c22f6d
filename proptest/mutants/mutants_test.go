package mutants

import (
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

	"github.com/google/go-cmp/cmp"

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

func all(t *testing.T) []Mutant {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// An edit of the product must not disable a mutant silently: each applies and compiles, and its tests are there.
func TestMutantsApply(t *testing.T) {
	names, tests, compiler := map[string]bool{}, map[string][]string{}, newCompiler(t)
	for _, m := range all(t) {
		if names[m.Name] {
			t.Errorf("two mutants are called %q", m.Name)
		}
		names[m.Name] = true
		if m.Why == "" && m.Rule == 0 || m.Tests == "" || m.Package == "" || len(m.Edits) == 0 {
			t.Errorf("%s: something is left out", m.Name)
			continue
		}
		top, _, _ := strings.Cut(m.Tests, "/")
		if tests[m.Package] == nil {
			tests[m.Package] = testsOf(t, m.Package)
		}
		if notices, err := regexp.Compile(top); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		} else if !slices.ContainsFunc(tests[m.Package], notices.MatchString) {
			t.Errorf("%s: no test of %s is called %s", m.Name, m.Package, m.Tests)
		}
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		mutated, err := m.Apply(string(text))
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
	files  *token.FileSet
	parsed map[string]*ast.File // what is not replaced
}

func newCompiler(t *testing.T) compiler {
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}")
	list.Dir = root
	for _, m := range all(t) {
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
	c := compiler{files: token.NewFileSet(), parsed: map[string]*ast.File{}}
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
		at := filepath.Join(dir.Dir, name)
		parsed, mutated := c.parsed[at], name == path.Base(file)
		if mutated {
			parsed, err = parser.ParseFile(c.files, at, text, parser.SkipObjectResolution)
		} else if parsed == nil {
			parsed, err = parser.ParseFile(c.files, at, nil, parser.SkipObjectResolution)
			c.parsed[at] = parsed
		}
		if err != nil {
			return err
		}
		all = append(all, parsed)
	}
	_, err = c.Check(dir.ImportPath, c.files, all, nil)
	return err
}

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

func TestEveryRuleHasAMutant(t *testing.T) {
	broken := map[int][]string{}
	for _, m := range all(t) {
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
	some := slices.DeleteFunc(all(t), func(m Mutant) bool { return !pattern.MatchString(m.Name) })
	var counted tally.Tally
	if err := RunAll(t.Context(), root, some, &counted, os.Stderr); err != nil {
		t.Error(err)
	}
	counted.Report(t)
	if n := counted.Checks[Caught]; n != len(some) {
		t.Errorf("%d mutants have a verdict, of %d", n, len(some))
	}
}

// A run without a verdict is an error, and catches nothing; nor does a test that the mutant can't fail.
func TestNoVerdict(t *testing.T) {
	seeds(t)
	const harmless = "mutant: another constant\nfile: relations/validate.go\ntests: ^TestCloneSharesNothing$\nin: ./relations\n-MaxAllow = 10_000\n"
	for text, want := range map[string]string{
		"+MaxAllow = 10_001":                              "",
		"+MaxAllow = 10_001\n-func\n+func":                "must have it once",
		`+MaxAllow = "many"`:                              "doesn't compile",
		"+MaxAllow = 10_001\ntests: ^TestThatIsNotThere$": "no test of",
		"+MaxAllow = 10_001\nfile: relations/nothing.go":  "no such file",

		"+MaxAllow = 10_001\nin: ./admin\ntests: ^TestTheIndexHelps$": "TestTheIndexHelps of ./admin is skipped",
	} {
		ms, err := Parse(harmless + text)
		if err != nil {
			t.Fatal(err)
		}
		caughtBy, err := run(t.Context(), root, ms[0], func() bool { return false })
		if caughtBy != "" || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: caught by %q, error %v; want %q", text, caughtBy, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	const text = "# A comment.\n\nmutant: a\nrule: 3\nwhy: b\nfile: c.go\ntests: ^T$\nin: ./d\n-one\n-\n-two\n+three\n+\tfour\n-five\n+\n-six\n\nmutant: b\n-x\n"
	want := []Mutant{{
		Name: "a", Rule: 3, Why: "b", File: "c.go", Tests: "^T$", Package: "./d",
		Edits: []Edit{{Old: "one\n\ntwo", New: "three\n\tfour"}, {Old: "five"}, {Old: "six"}},
	}, {Name: "b", Edits: []Edit{{Old: "x"}}}}
	got, err := Parse(text)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	for _, wrong := range []string{"file: a", "mutant: a\n+b", "mutant: a\n-b\nrule: 1\n+c", "mutant: a\nrule: x", "mutant: a\nfiles: b"} {
		if _, err := Parse(wrong); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}
