package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// Bounds of one run of tests.
const (
	expectedTimeout = 60 * time.Second // of the expected tests
	packageTimeout  = 4 * time.Minute  // of a whole package's
)

// workers mutants are tried at a time: while some are compiled, the tests of
// another wait for the server.
var workers = 1 + runtime.NumCPU()

// Caught is counted once for each mutant. A survivor is a violation, and not an
// error.
const Caught = "each mutant is caught by a test"

// RunAll runs mutants, counts them in t with the test that caught each, and
// prints its progress to out.
func RunAll(ctx context.Context, root string, ms []Mutant, t *tally.Tally, out io.Writer) error {
	var (
		mu   sync.Mutex // of out, done and errs
		done int
		errs []error
		wg   sync.WaitGroup
		free = make(chan struct{}, workers)
	)
	for _, m := range ms {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			begun := time.Now()
			caughtBy, err := Run(ctx, root, m)
			mu.Lock()
			defer mu.Unlock()
			done++
			said := "caught by " + caughtBy
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("mutant %q: %w", m.Name, err))
				said = "no verdict, " + err.Error()
			case caughtBy == "":
				said = "SURVIVED"
				t.Violated(Caught, "%s", m.Name)
			}
			if err == nil {
				t.Checked(Caught, 1)
				t.Seen(fmt.Sprintf("mutant: %s: %s", m.Name, said), 1)
			}
			took := time.Since(begun).Round(100 * time.Millisecond)
			fmt.Fprintf(out, "mutant %d of %d, %s: %s (%v)\n", done, len(ms), m.Name, said, took)
			<-free
		})
	}
	wg.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// Run applies one mutant to the module at root and returns the test that
// caught it, or "" if all tests passed. An error is neither: the mutant doesn't
// apply or compile, or the test fails without it too. It runs the expected tests
// first, then all tests of their package, then those of the other packages.
func Run(ctx context.Context, root string, m Mutant) (caughtBy string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	caughtBy, err = judge(ctx, root, m.Packages[0], m.Tests, expectedTimeout, overlay)
	for _, pkg := range m.Packages {
		if caughtBy != "" || err != nil {
			break
		}
		caughtBy, err = judge(ctx, root, pkg, every, packageTimeout, overlay)
	}
	return caughtBy, err
}

// Overlay writes the mutated copy into dir, and the file that tells the
// compiler to use it. The checkout is never changed.
func (m Mutant) Overlay(root, dir string) (string, error) {
	source, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	mutated, err := m.apply(string(text))
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

// apply makes the edits.
func (m Mutant) apply(text string) (string, error) {
	for _, e := range append([]Edit{{m.Old, m.New}}, m.More...) {
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("%s has this text %d times, and must have it once:\n%s", m.File, n, e.Old)
		}
		text = strings.Replace(text, e.Old, e.New, 1)
	}
	return text, nil
}

// every is the pattern of all tests of a package.
const every = "."

// judge runs tests and returns the first one that failed. It counts if the same
// test passes without the mutant. If it was not expected to fail, it must also
// fail a second time: a flaky test must catch nothing.
func judge(ctx context.Context, root, pkg, tests string, timeout time.Duration, overlay string) (string, error) {
	flags := []string{"-overlay=" + overlay, "-count=1", "-timeout=" + timeout.String()}
	out, failed, err := test(ctx, root, pkg, tests, flags...)
	if err != nil || !failed {
		return "", err
	}
	found := failure(out)
	if found == (verdict{}) {
		return "", fmt.Errorf("the tests of %s failed, and don't say where:\n%s", pkg, tail(out))
	}
	again := tests
	if found.test != "" {
		again = "^" + found.test + "$"
	}
	if tests == every {
		if _, failed, err := test(ctx, root, pkg, again, flags...); err != nil || !failed {
			return "", cmp.Or(err, fmt.Errorf("%s of %s fails now and then:\n%s", found, pkg, tail(out)))
		}
	}
	for range 2 { // a busy machine may fail it once; the go command remembers what passes
		out, failed, err = test(ctx, root, pkg, again, "-timeout="+packageTimeout.String())
		if err != nil {
			return "", err
		}
		if !failed {
			return fmt.Sprintf("%s: %s", strings.TrimPrefix(strings.Replace(pkg, ".", "doclock", 1), "doclock/"), found), nil
		}
	}
	return "", fmt.Errorf("%s of %s fails without it too:\n%s", found, pkg, tail(out))
}

// test compiles and runs tests of a package. A failure of the tests is not an error. It doesn't optimize the project's
// own code, which would take longer than the tests gain by it.
func test(ctx context.Context, root, pkg, tests string, flags ...string) (out []byte, failed bool, err error) {
	arguments := []string{"test", "-vet=off", "-failfast", "-run=" + tests,
		"-gcflags=github.com/doclock/doclock/...=-N -l", "-ldflags=-s -w"}
	cmd := exec.CommandContext(ctx, "go", append(append(arguments, flags...), pkg)...)
	cmd.Dir = root
	cmd.WaitDelay = 5 * time.Second
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err == nil && bytes.Contains(out, []byte("[no tests to run]")):
		return nil, false, fmt.Errorf("no test of %s matches %q", pkg, tests)
	case bytes.Contains(out, []byte("[build failed]")):
		return nil, false, fmt.Errorf("it doesn't compile:\n%s", tail(out))
	case errors.As(err, &exit):
		return out, true, nil
	default:
		return out, false, err
	}
}
