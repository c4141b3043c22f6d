package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// Caught is counted once for each mutant. A survivor is a violation, and not an error.
const Caught = "each mutant is caught by a test"

// RunAll runs mutants, counts them in t with the test that caught each, and prints its progress to out. While some are
// compiled, the tests of another wait for the server. The tests of a package are linked and run once without mutants.
func RunAll(ctx context.Context, root string, ms []Mutant, t *tally.Tally, out io.Writer) error {
	var (
		mu   sync.Mutex // of out, done and errs
		done int
		errs []error
		wg   sync.WaitGroup
		free = make(chan struct{}, 1+runtime.NumCPU())
	)
	tests := map[string][]string{} // of each package
	for _, m := range ms {
		tests[m.Package] = append(tests[m.Package], m.Tests)
	}
	pass := map[string]func() bool{}
	for pkg, tests := range tests {
		pass[pkg] = sync.OnceValue(func() bool {
			failure, err := test(ctx, root, Mutant{Package: pkg, Tests: strings.Join(tests, "|")}, "-timeout=10m")
			return failure == "" && err == nil
		})
	}
	for _, m := range ms {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			begun := time.Now()
			caughtBy, err := run(ctx, root, m, pass[m.Package])
			said := "caught by " + caughtBy
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("mutant %q: %w", m.Name, err))
				said = "no verdict, " + err.Error()
			case caughtBy == "":
				said = "SURVIVED"
				t.Violated(Caught, "%s", m.Name)
				fallthrough
			default:
				t.Checked(Caught, 1)
				t.Seen(fmt.Sprintf("mutant: %s: %s", m.Name, said), 1)
			}
			done++
			took := time.Since(begun).Round(100 * time.Millisecond)
			fmt.Fprintf(out, "mutant %d of %d, %s: %s (%v)\n", done, len(ms), m.Name, said, took)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// limit is the time of one mutant's tests.
const limit = "-timeout=1m"

// run applies one mutant to the module at root, and returns how its tests failed, or "" if they passed. An error is
// neither: the mutant doesn't apply or compile, its tests fail without it too, or some of them are skipped. Its tests
// are run without it only if pass doesn't know that they pass, or if they have timed out.
func run(ctx context.Context, root string, m Mutant, pass func() bool) (caughtBy string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", err
	}
	caughtBy, err = test(ctx, root, m, "-overlay="+overlay, "-count=1", limit, "-v")
	if caughtBy == "" || err != nil {
		return "", err
	}
	if !strings.Contains(caughtBy, "timed out") && pass() { // else they must pass in that time, on a machine as busy
		return m.Package + ": " + caughtBy, nil
	}
	for range 2 { // a busy machine may fail them once
		without, err := test(ctx, root, m, "-count=1", limit)
		if err != nil {
			return "", err
		}
		if without == "" {
			return m.Package + ": " + caughtBy, nil
		}
	}
	return "", fmt.Errorf("%s of %s fail without it too", m.Tests, m.Package)
}

// overlay writes the mutated copy into dir, and the file that tells the compiler to use it. The checkout is never
// changed, and the product has no switch.
func (m Mutant) overlay(root, dir string) (string, error) {
	source, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	mutated, err := m.Apply(string(text))
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(dir, filepath.Base(source))
	if err := os.WriteFile(replacement, []byte(mutated), 0o600); err != nil {
		return "", err
	}
	table, err := json.Marshal(map[string]map[string]string{"Replace": {source: replacement}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, table, 0o600)
}

// how finds the line that says how tests failed; skipped finds one that was skipped.
var (
	how     = regexp.MustCompile(`(?m)^(?:--- FAIL: \S+|panic: .*|.*left goroutines behind)`)
	skipped = regexp.MustCompile(`(?m)^ *--- SKIP: (\S+)`)
)

// test compiles and runs the tests of a mutant, and returns how they failed. It doesn't optimize the project's own
// code, which would take longer than the tests gain by it, and lets the compiler and the linker keep their garbage.
// With -v it finds what was skipped.
func test(ctx context.Context, root string, m Mutant, flags ...string) (failure string, err error) {
	arguments := []string{"test", "-vet=off", "-failfast", "-run=" + m.Tests,
		"-gcflags=github.com/doclock/doclock/...=-N -l", "-ldflags=-s -w"}
	cmd := exec.CommandContext(ctx, "go", append(append(arguments, flags...), m.Package)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOGC=400")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err == nil && bytes.Contains(out, []byte("[no tests to run]")):
		return "", fmt.Errorf("no test of %s matches %q", m.Package, m.Tests)
	case err == nil && skipped.Match(out):
		return "", fmt.Errorf("%s of %s is skipped here; name a test that runs", skipped.FindSubmatch(out)[1], m.Package)
	case bytes.Contains(out, []byte("[build failed]")):
		return "", fmt.Errorf("it doesn't compile:\n%s", out)
	case !errors.As(err, &exit):
		return "", err
	}
	found := how.Find(out)
	if found == nil {
		return "", fmt.Errorf("the tests of %s failed, and don't say how:\n%s", m.Package, out)
	}
	return strings.TrimPrefix(string(found), "--- FAIL: "), nil
}
