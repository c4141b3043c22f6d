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

// Run applies one mutant to the module at root and returns the test that
// caught it, or "" if all tests passed. An error is neither: the mutant doesn't
// apply or compile, or the test fails without it too.
func Run(ctx context.Context, root string, m Mutant) (caughtBy string, err error) {
	l, err := open(root)
	if err != nil {
		return "", err
	}
	defer l.close()
	return l.run(ctx, m)
}

// RunAll runs mutants, counts them in t, and prints its progress to out. A
// surviving mutant is counted in t (see [tally.Tally.Failures]) and is not an
// error.
func RunAll(ctx context.Context, root string, ms []Mutant, t *tally.Tally, out io.Writer) error {
	l, err := open(root)
	if err != nil {
		return err
	}
	defer l.close()

	var (
		mu    sync.Mutex // of out, done and errs
		done  int
		errs  []error
		wg    sync.WaitGroup
		queue = make(chan Mutant)
	)
	for range workers {
		wg.Go(func() {
			for m := range queue {
				begun := time.Now()
				caughtBy, err := l.run(ctx, m)
				took := time.Since(begun).Round(100 * time.Millisecond)
				mu.Lock()
				done++
				switch {
				case err != nil:
					errs = append(errs, fmt.Errorf("mutant %q: %w", m.Name, err))
					fmt.Fprintf(out, "mutant %d of %d, %s: no verdict, %v\n", done, len(ms), m.Name, err)
				case caughtBy == "":
					t.Mutant(m.Name, "")
					fmt.Fprintf(out, "mutant %d of %d, %s: SURVIVED (%v)\n", done, len(ms), m.Name, took)
				default:
					t.Mutant(m.Name, caughtBy)
					fmt.Fprintf(out, "mutant %d of %d, %s: caught by %s (%v)\n", done, len(ms), m.Name, caughtBy, took)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range ms {
		if ctx.Err() != nil {
			break
		}
		queue <- m
	}
	close(queue)
	wg.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// lab compiles and runs mutants.
type lab struct {
	root string
	dir  string // of the copies and the test binaries

	mu       sync.Mutex
	binaries map[string]func() (string, error) // of a package's tests without a mutant
	controls map[string]func() error           // of some of these tests: whether they pass
}

func open(root string) (*lab, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	return &lab{root: root, dir: dir, binaries: map[string]func() (string, error){}, controls: map[string]func() error{}}, nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// run runs the expected tests first, then all tests of their package, then
// those of the other packages.
func (l *lab) run(ctx context.Context, m Mutant) (caughtBy string, err error) {
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.Overlay(l.root, dir)
	if err != nil {
		return "", err
	}
	for i, pkg := range m.Packages {
		binary, err := l.compile(ctx, pkg, filepath.Join(dir, fmt.Sprint("test", i)), "-overlay="+overlay)
		if err != nil {
			return "", err
		}
		if i == 0 {
			caughtBy, err := l.judge(ctx, pkg, binary, m.Tests, true)
			if caughtBy != "" || err != nil {
				return caughtBy, err
			}
		}
		caughtBy, err := l.judge(ctx, pkg, binary, ".", false)
		if caughtBy != "" || err != nil {
			return caughtBy, err
		}
	}
	return "", nil
}

// Overlay writes the mutated copy into dir, and the file that tells the
// compiler to use it. The checkout is never changed.
func (m Mutant) Overlay(root, dir string) (string, error) {
	source := filepath.Join(root, filepath.FromSlash(m.File))
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

// compile makes a package's test binary. It doesn't optimize the project's own
// code, which would take longer than the tests gain by it.
func (l *lab) compile(ctx context.Context, pkg, binary string, flags ...string) (string, error) {
	arguments := append([]string{"test", "-c", "-vet=off", "-gcflags=github.com/doclock/doclock/...=-N -l", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(arguments, pkg)...)
	cmd.Dir = l.root
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("it doesn't compile: %w\n%s", err, tail(out))
	default:
		return binary, nil
	}
}

// judge runs tests and returns the first one that failed. It counts if the same
// test passes without the mutant. If it was not expected to fail, it must also
// fail a second time: a flaky test must catch nothing.
func (l *lab) judge(ctx context.Context, pkg, binary, tests string, expected bool) (caughtBy string, err error) {
	timeout := packageTimeout
	if expected {
		timeout = expectedTimeout
	}
	out, failed, err := l.test(ctx, pkg, binary, tests, timeout)
	if err != nil || !failed {
		return "", err
	}
	found := failure(out)
	if found.test == "" && found.how == "" {
		return "", fmt.Errorf("the tests of %s failed, and don't say where:\n%s", pkg, tail(out))
	}
	if found.test != "" {
		tests = "^" + found.test + "$"
	}
	if !expected {
		if _, failed, err := l.test(ctx, pkg, binary, tests, timeout); err != nil || !failed {
			return "", cmp.Or(err, fmt.Errorf("%s of %s fails now and then:\n%s", found, pkg, tail(out)))
		}
	}
	if err := l.passes(ctx, pkg, tests); err != nil {
		return "", fmt.Errorf("%s of %s fails without it too: %w", found, pkg, err)
	}
	return fmt.Sprintf("%s: %s", strings.TrimPrefix(strings.Replace(pkg, ".", "doclock", 1), "doclock/"), found), nil
}

// passes runs tests without a mutant, once for all mutants.
func (l *lab) passes(ctx context.Context, pkg, tests string) error {
	l.mu.Lock()
	if l.binaries[pkg] == nil {
		l.binaries[pkg] = sync.OnceValues(func() (string, error) {
			return l.compile(ctx, pkg, filepath.Join(l.dir, "untouched"+strings.NewReplacer("/", "_", ".", "_").Replace(pkg)))
		})
	}
	if l.controls[pkg+tests] == nil {
		untouched, log := l.binaries[pkg], []byte(nil)
		l.controls[pkg+tests] = sync.OnceValue(func() error {
			binary, err := untouched()
			if err != nil {
				return err
			}
			for range 2 { // a busy machine may fail it once
				out, failed, err := l.test(ctx, pkg, binary, tests, packageTimeout)
				if err != nil || !failed {
					return err
				}
				log = out
			}
			return fmt.Errorf("\n%s", tail(log))
		})
	}
	passes := l.controls[pkg+tests]
	l.mu.Unlock()
	return passes()
}

// test runs a test binary in its package's directory, as go test does. A
// failure of the tests is not an error.
func (l *lab) test(ctx context.Context, pkg, binary, tests string, timeout time.Duration) (out []byte, failed bool, err error) {
	cmd := exec.CommandContext(ctx, binary, "-test.run="+tests, "-test.failfast", "-test.count=1", "-test.timeout="+timeout.String())
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(pkg))
	cmd.WaitDelay = 5 * time.Second
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err == nil && bytes.Contains(out, []byte("testing: warning: no tests to run")):
		return nil, false, fmt.Errorf("no test of %s matches %q", pkg, tests)
	case err == nil:
		return out, false, nil
	case errors.As(err, &exit):
		return out, true, nil
	default:
		return nil, false, err
	}
}
