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

// draw writes the commands of a number of drawn rules to a new directory, as
// the engine's own tests send them. flags are the compiler's.
func (e *evaluation) write(ctx context.Context, arguments []string, flags ...string) (dir string, err error) {
	dir, err = os.MkdirTemp("", "doclock-evaluation")
	if err != nil {
		return "", err
	}
	test := append([]string{"test", "-count=1", "-run=^TestFurtherCommands$"}, flags...)
	test = append(append(test, "./internal/engine", "-args", "-into="+dir), arguments...)
	if err := e.run(ctx, io.Discard, e.root, "go", test...); err != nil {
		return "", cmp.Or(os.RemoveAll(dir), err)
	}
	return dir, nil
}

// errDisagreement is the verdict of main.js.
var errDisagreement = errors.New("the evaluations disagree")

// compare runs main.js on the commands in these directories.
func (e *evaluation) compare(ctx context.Context, out io.Writer, arguments []string, directory string) error {
	err := e.run(ctx, out, e.directory(), "node", append(append([]string{"main.js"}, arguments...), directory)...)
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
