//go:build unix

package mongotest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCacheWithoutHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", t.TempDir())
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.dir, os.TempDir()) {
		t.Errorf("the cache is in %s", c.dir)
	}
	// Other users could put any files there.
	if err := os.Chmod(filepath.Dir(filepath.Dir(c.dir)), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := openCache(); err == nil {
		t.Error("a directory that others can write to is taken")
	}
}

func TestDeepCacheHasAShortSocket(t *testing.T) {
	c := cache{dir: "/" + strings.Repeat("deep/", 40)}
	if socket := c.socket(); len(socket) > 100 {
		t.Errorf("the socket is %s", socket)
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); !errors.Is(err, errLocked) {
		t.Errorf("locked twice: %v", err)
	}
	first.close()
	again, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	again.close()
}

func TestSweep(t *testing.T) {
	base := t.TempDir()
	living, err := newRun(base)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newRun(base)
	if err != nil {
		t.Fatal(err)
	}
	dead.lock.close() // as at the end of its owner

	sweep(base)
	if _, err := os.Stat(living.dir); err != nil {
		t.Errorf("a living owner's directory: %v", err)
	}
	if _, err := os.Stat(dead.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dead owner's directory: %v", err)
	}
	if err := living.remove(); err != nil {
		t.Error(err)
	}
}

// The remains of an interrupted preparation don't count as a complete one, and
// are removed.
func TestUnfinishedPreparation(t *testing.T) {
	c := cache{dir: t.TempDir()}
	if err := os.MkdirAll(c.path("unfinished-123/debian/etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openDebianRoot(c); err == nil {
		t.Error("half a root is taken for a whole one")
	}
	if err := removeUnfinished(c); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestProcessThatEndsAtOnce(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(shell("echo no room >&2"), log)
	if err != nil {
		t.Fatal(err)
	}
	err = p.says(t.Context(), "ready")
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("the error is: %v", err)
	}
	if err := p.kill(); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

func TestKillTakesTheWholeFamily(t *testing.T) {
	p, err := startProcess(shell("sh -c 'echo up; sleep 100' & sleep 100"), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.says(t.Context(), "up"); err != nil {
		t.Fatal(err)
	}
	family := descendants(p.child.Pid)
	began := time.Now()
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	if left := alive(family); len(left) > 0 || time.Since(began) > time.Minute {
		t.Errorf("after %v, %v are alive", time.Since(began), left)
	}
}
