package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// daemon is a server that the benchmark started, with its data in a temporary
// directory.
type daemon struct {
	address string
	about   string
	cmd     *exec.Cmd
	dir     string
	out     bytes.Buffer
	ended   chan struct{}
}

// startDaemon starts program and waits until it listens on address.
func startDaemon(ctx context.Context, p program, address, dir string, args ...string) (*daemon, error) {
	d := &daemon{address: address, cmd: exec.Command(p.path, args...), dir: dir, ended: make(chan struct{})}
	d.cmd.Env = append(os.Environ(), p.env...)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, &d.out, &d.out
	tie(d.cmd)
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		_ = d.cmd.Wait() // the error only says that it was killed
		close(d.ended)
	}()
	if err := listening(ctx, d); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

// stop ends the server and removes its data.
func (d *daemon) stop() error {
	_ = d.cmd.Process.Kill()
	<-d.ended
	return os.RemoveAll(d.dir)
}

// said is the end of an ended server's output.
func (d *daemon) said() string {
	lines := strings.Split(strings.TrimSpace(d.out.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}

// program is an executable and its environment.
type program struct {
	path string
	env  []string
}

// find looks for a program on PATH and in the benchmark's cache. Otherwise it
// downloads the Debian packages that have it and unpacks them into the cache;
// nothing is installed.
func find(ctx context.Context, name string, packages []string, say func(string, ...any)) (program, error) {
	if path, err := exec.LookPath(name); err == nil {
		return program{path: path}, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return program{}, err
	}
	root := filepath.Join(base, "doclock", "bench", name)
	if _, err := os.Stat(filepath.Join(root, "usr/bin", name)); err != nil {
		if _, err := exec.LookPath("apt-get"); err != nil {
			return program{}, fmt.Errorf("no %s on PATH, and no apt-get to fetch it with", name)
		}
		say("fetching Debian's %s into %s (some 10 MB; nothing is installed)", strings.Join(packages, ", "), root)
		if err := fetch(ctx, root, packages); err != nil {
			return program{}, err
		}
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	if err != nil {
		return program{}, err
	}
	return program{filepath.Join(root, "usr/bin", name), []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}}, nil
}

// fetch unpacks packages beside root, and renames the directory to root when it
// is complete.
func fetch(ctx context.Context, root string, packages []string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(root), "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	download := append([]string{"apt-get", "-q", "download"}, packages...)
	if err := runIn(ctx, dir, download...); err != nil {
		if os.Getuid() != 0 {
			return err
		}
		// The package lists are old, or missing.
		if err := errors.Join(runIn(ctx, dir, "apt-get", "-q", "update"), runIn(ctx, dir, download...)); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := runIn(ctx, dir, "dpkg", "-x", archive, "root"); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(dir, "root"), root)
}

func runIn(ctx context.Context, dir string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
