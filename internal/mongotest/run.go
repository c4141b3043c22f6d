//go:build unix

package mongotest

import (
	"fmt"
	"os"
	"path/filepath"
)

// A run is the directory of one running server: its data and its logs. It has a
// file that is locked as long as the server's owner lives. The next process
// removes the remains of a killed owner.
type run struct {
	dir  string
	lock *fileLock
}

// newRun removes the directories in base whose owners are dead, and makes a new
// one.
func newRun(base string) (*run, error) {
	if err := os.MkdirAll(base, 0o711); err != nil {
		return nil, fmt.Errorf("making the directory for runs: %w", err)
	}
	sweep(base)

	// The directory gets its name only when it is locked, or another process
	// would remove it at once.
	fresh, err := os.MkdirTemp(base, ".new-")
	if err != nil {
		return nil, fmt.Errorf("making a run's directory: %w", err)
	}
	lock, err := tryLock(filepath.Join(fresh, "lock"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, fmt.Sprintf("%d-%s", os.Getpid(), filepath.Base(fresh)[len(".new-"):]))
	if err := os.Rename(fresh, dir); err != nil {
		lock.close()
		return nil, fmt.Errorf("naming a run's directory: %w", err)
	}
	return &run{dir: dir, lock: lock}, nil
}

func (r *run) path(name string) string { return filepath.Join(r.dir, name) }

func (r *run) remove() error {
	defer r.lock.close()
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("removing the server's directory: %w", err)
	}
	return nil
}

// sweep removes the directories of dead owners. What can't be removed now is
// left to the next process.
func sweep(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, "[0-9]*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if lock, err := tryLock(filepath.Join(dir, "lock")); err == nil {
			_ = os.RemoveAll(dir)
			lock.close()
		}
	}
}
