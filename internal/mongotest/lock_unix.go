//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// A fileLock is held until it is closed or its process ends, for any reason.
type fileLock struct{ file *os.File }

var errLocked = errors.New("locked by another process")

// tryLock takes the lock at once, or returns errLocked.
func tryLock(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock file: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &fileLock{file: file}, nil
}

func (l *fileLock) close() { _ = l.file.Close() }

// lock waits for the cache's lock. A process holds it while it fills the cache,
// starts the shared server or greets it.
func (c cache) lock(ctx context.Context, say *progress) (*fileLock, error) {
	path := c.path("lock")
	began, told := time.Now(), false
	for {
		lock, err := tryLock(path)
		if err == nil {
			lock.sign()
			return lock, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, err
		}
		if !told && time.Since(began) > 5*time.Second {
			holder, _ := os.ReadFile(path) // only for the message
			say.say("waiting for another process that prepares or starts the server (pid %s)", strings.TrimSpace(string(holder)))
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// sign writes our process number to the lock file, for the processes that wait.
func (l *fileLock) sign() {
	if err := l.file.Truncate(0); err != nil {
		return
	}
	_, _ = fmt.Fprintln(l.file, os.Getpid()) // for people only
}

func checkOwned(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("checking the cache directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory of ours alone; set HOME or XDG_CACHE_HOME", dir)
	}
	return nil
}
