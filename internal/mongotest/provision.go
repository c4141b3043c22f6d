//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// prepareDocumentDB fills the cache with the Debian root, if it is missing:
// DocumentDB and a database template from Debian, FerretDB built from source.
// It is built under another name, and gets its own name when it is complete.
func prepareDocumentDB(ctx context.Context, c cache, say *progress) error {
	switch {
	case runtime.GOOS != "linux":
		return unavailable("only on Debian and Ubuntu")
	case os.Geteuid() != 0:
		return unavailable("needs root: it makes a Debian root with PostgreSQL, whose own user runs it")
	}
	if _, err := os.Stat(c.path("debian")); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return unavailable("no apt-get on PATH: only on Debian and Ubuntu")
	}
	if _, err := exec.LookPath("go"); err != nil {
		return unavailable("no go command on PATH, to build FerretDB")
	}

	say.say("no MongoDB here: preparing PostgreSQL with DocumentDB (from Debian) and FerretDB (from source), once for all.")
	say.say("this downloads some 250 MB, takes 700 MB in %s, and one to three minutes.", c.dir)
	if err := removeUnfinished(c); err != nil {
		return err
	}
	build, err := os.MkdirTemp(c.dir, "unfinished-")
	if err != nil {
		return fmt.Errorf("making a directory to build in: %w", err)
	}
	root := debianRoot{dir: filepath.Join(build, "debian")}

	// The two long steps are independent, and each stops soon if the other
	// fails.
	var bootstrap, compile error
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var steps sync.WaitGroup
	steps.Go(func() {
		if bootstrap = bootstrapDebian(both, root, build, say); bootstrap != nil {
			cancel()
		}
	})
	steps.Go(func() {
		if compile = compileFerret(both, build, say); compile != nil {
			cancel()
		}
	})
	steps.Wait()
	err = errors.Join(bootstrap, compile)
	if err == nil {
		err = say.step(ctx, "making a database template", func(ctx context.Context) error { return finish(ctx, root, build) })
	}
	if err == nil {
		err = os.Rename(root.dir, c.path("debian"))
	}
	return errors.Join(err, removeUnfinished(c))
}

// removeUnfinished removes the remains of an interrupted preparation.
func removeUnfinished(c cache) error {
	dirs, err := filepath.Glob(c.path("unfinished-*"))
	if err != nil {
		return fmt.Errorf("looking for unfinished preparations: %w", err)
	}
	for _, dir := range dirs {
		if err := checkUnmounted(dir); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing an unfinished preparation: %w", err)
		}
	}
	return nil
}

// checkUnmounted makes sure that removing a directory does not remove the
// contents of a mount in it, such as /dev. mmdebstrap mounts in its own
// namespace if it can.
func checkUnmounted(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading what is mounted: %w", err)
	}
	if strings.Contains(string(mounts), " "+dir+"/") {
		return fmt.Errorf("something is still mounted in %s: unmount it and remove the directory", dir)
	}
	return nil
}

// finish puts FerretDB into the root and makes the database template, of which
// every server gets a copy.
func finish(ctx context.Context, root debianRoot, build string) error {
	uid, gid, err := root.postgresUser()
	if err != nil {
		return err
	}
	root.uid, root.gid = uid, gid
	if err := os.Rename(filepath.Join(build, "ferretdb"), root.path(ferretBin)); err != nil {
		return fmt.Errorf("moving FerretDB into the root: %w", err)
	}
	// We do not change the database cluster of Debian's package.
	if err := os.RemoveAll(root.path("/var/lib/postgresql/18/main")); err != nil {
		return fmt.Errorf("removing Debian's database: %w", err)
	}
	if err := os.Mkdir(root.path(templateIn), 0o700); err != nil {
		return fmt.Errorf("making the template's directory: %w", err)
	}
	if err := os.Chown(root.path(templateIn), uid, gid); err != nil {
		return fmt.Errorf("giving the template to postgres: %w", err)
	}

	// Every client that reaches the socket is let in, including the extension's
	// own roles: no other user can reach it.
	initdb := root.command(ctx, postgresBin+"initdb", "--auth=trust", "--no-sync", "--locale=C.UTF-8", "--encoding=UTF8", templateIn)
	if err := runLogged(initdb, filepath.Join(build, "initdb.log")); err != nil {
		return err
	}
	// Single-user mode: there is no server to stop. It always exits with 0; its
	// log has the errors.
	log := filepath.Join(build, "extension.log")
	args := append([]string{"--single", "-j", "-D", templateIn}, postgresArgs()...)
	single := root.command(ctx, postgresBin+"postgres", append(args, "postgres")...)
	single.Stdin = strings.NewReader("create extension documentdb cascade;\n")
	if err := runLogged(single, log); err != nil {
		return err
	}
	return checkLog(log)
}

func checkLog(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a log: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "ERROR:") || strings.Contains(line, "FATAL:") || strings.Contains(line, "PANIC:") {
			return fmt.Errorf("creating the extension: %s\n%s", line, tail(path))
		}
	}
	return nil
}

// runLogged runs a command to its end. The error shows the file with its
// output. A command that is asked to stop may clean up for a while.
func runLogged(cmd *exec.Cmd, log string) error {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	runtime.LockOSThread() // for endWithUs
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, tail(log))
	}
	return nil
}
