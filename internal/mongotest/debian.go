//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// openDebianRoot is the cache's root, which by its name is complete.
func openDebianRoot(c cache) (debianRoot, error) {
	root := debianRoot{dir: c.path("debian")}
	uid, gid, err := root.postgresUser()
	if err != nil {
		return debianRoot{}, err
	}
	root.uid, root.gid = uid, gid
	return root, nil
}

// A debianRoot is a directory with a Debian in it, and the numbers of its user postgres.
type debianRoot struct {
	dir      string
	uid, gid int
}

func (r debianRoot) path(inside string) string { return filepath.Join(r.dir, inside) }

// command runs in the root as its user postgres, who may not be able to reach
// the root from outside: the root is changed first, then the user. It gets
// nothing of our environment.
func (r debianRoot) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/srv"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/srv", "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     r.dir,
		Credential: &syscall.Credential{Uid: uint32(r.uid), Gid: uint32(r.gid)},
	}
	return cmd
}

// postgresUser looks the user up in the root's own list: its numbers differ
// from this machine's.
func (r debianRoot) postgresUser() (uid, gid int, err error) {
	list, err := os.ReadFile(r.path("/etc/passwd"))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the Debian root's users: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		rest, found := strings.CutPrefix(line, "postgres:x:")
		if !found {
			continue
		}
		if _, err := fmt.Sscanf(strings.ReplaceAll(rest, ":", " "), "%d %d", &uid, &gid); err != nil {
			return 0, 0, fmt.Errorf("reading the Debian root's user postgres: %w", err)
		}
		return uid, gid, nil
	}
	return 0, 0, errors.New("the Debian root has no user postgres")
}

func bootstrapDebian(ctx context.Context, root debianRoot, build string, say *progress) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		err := say.step(ctx, "installing Debian's mmdebstrap", func(ctx context.Context) error {
			return installMmdebstrap(ctx, filepath.Join(build, "apt.log"))
		})
		if err != nil {
			return err
		}
	}
	args := []string{
		"--variant=minbase",
		// The release file of forky is not renewed everywhere; its signature is
		// still checked.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		"--include=postgresql-18,postgresql-18-documentdb",
		// Files that don't run are left out: a seventh of the size.
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
	}
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err == nil {
		args = append(args, "--keyring="+keyring)
	}
	args = append(args, "forky", root.dir, debianMirror(ctx))
	return say.step(ctx, "downloading PostgreSQL and DocumentDB", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
		endWithUs(cmd)
		return runLogged(cmd, filepath.Join(build, "mmdebstrap.log"))
	})
}

// installMmdebstrap installs the only package that is needed on the machine
// itself.
func installMmdebstrap(ctx context.Context, log string) error {
	apt := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=120"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		return runLogged(cmd, log)
	}
	// The package lists may be as old as the machine: a failure to renew them
	// matters only if the installation fails too.
	renew := apt("update")
	if err := apt("install", "--yes", "--no-install-recommends", "mmdebstrap", "debian-archive-keyring"); err != nil {
		return errors.Join(renew, err)
	}
	return nil
}

// debianMirror is the machine's own mirror of Debian, or Debian's.
func debianMirror(ctx context.Context) string {
	sources, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)").Output()
	if err == nil {
		for line := range strings.Lines(string(sources)) {
			origin, uri, _ := strings.Cut(strings.TrimSpace(line), " ")
			if origin == "Debian" && strings.HasSuffix(strings.TrimSuffix(uri, "/"), "/debian") {
				return uri
			}
		}
	}
	return "http://deb.debian.org/debian"
}
