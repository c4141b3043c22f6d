package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/doclock/doclock/internal/mongotest"
)

// evaluation is shared by the runs of this program.
type evaluation struct {
	root   string // of the module
	server *mongotest.Shared
}

func (e *evaluation) directory() string { return filepath.Join(e.root, "proptest", "evaluation") }

// open finds a server, and npm's packages if they are not installed.
func open(ctx context.Context) (*evaluation, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module: %w", err)
	}
	e := &evaluation{root: strings.TrimSpace(string(root))}
	if _, err := os.Stat(filepath.Join(e.directory(), "node_modules", ".package-lock.json")); err != nil {
		if err := e.run(ctx, os.Stderr, e.directory(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return nil, err
		}
	}
	e.server, err = mongotest.Start(ctx, os.Stderr)
	return e, err
}

// errDisagreement is the verdict of main.js.
var errDisagreement = errors.New("the evaluations disagree")

// compare runs main.js on commands as the engine's own tests send them. flags are the compiler's.
func (e *evaluation) compare(ctx context.Context, out io.Writer, engine, node []string, flags ...string) (err error) {
	dir, err := os.MkdirTemp("", "doclock-evaluation")
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(dir)) }()
	test := slices.Concat([]string{"test", "-count=1", "-run=^TestFurtherCommands$"}, flags, []string{"./internal/engine", "-args", "-into=" + dir}, engine)
	if err := e.run(ctx, io.Discard, e.root, "go", test...); err != nil {
		return err
	}
	err = e.run(ctx, out, e.directory(), "node", slices.Concat([]string{"main.js"}, node, []string{dir})...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return errDisagreement
	}
	return err
}

func (e *evaluation) run(ctx context.Context, out io.Writer, dir, name string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, os.Stderr
	if e.server != nil {
		cmd.Env = append(os.Environ(), "MONGODB_URI="+e.server.URI())
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
