package mongotest

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// recipe numbers the layout and the contents of the cache, and the protocol
// between processes and the supervisor. A change of one of them raises it, so
// that an older build's cache and supervisor are not used.
const recipe = "1"

// A cache is the directory that outlives the tests: downloads and builds, the
// lock that orders its users, and the supervisor's socket. Its path
// distinguishes one user's server from another's.
type cache struct{ dir string }

// openCache finds the cache's place, also without a home directory, and makes
// the directory.
func openCache() (cache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		// No HOME: use a directory under /tmp that belongs to this user alone.
		base = filepath.Join(os.TempDir(), fmt.Sprintf("doclock-%d", os.Getuid()))
		if err := os.MkdirAll(base, 0o700); err != nil {
			return cache{}, fmt.Errorf("making a cache directory: %w", err)
		}
		if err := checkOwned(base); err != nil {
			return cache{}, err
		}
	}
	c := cache{dir: filepath.Join(base, "doclock", cacheName())}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return cache{}, fmt.Errorf("making the cache directory: %w", err)
	}
	return c, nil
}

func (c cache) path(name string) string { return filepath.Join(c.dir, name) }

// socket is the supervisor's socket. Socket paths are limited to about a
// hundred bytes, so a deep cache directory has its socket under /tmp, named
// after the cache.
func (c cache) socket() string {
	if path := c.path("supervisor.sock"); len(path) < 100 {
		return path
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(c.dir)) // a hash never fails
	return filepath.Join(os.TempDir(), fmt.Sprintf("doclock-%d-%x.sock", os.Getuid(), sum.Sum64()))
}

// tail returns the end of a log file, for an error that has to show a server's
// output.
func tail(path string) string {
	const most = 4 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if len(text) > most {
		text = append([]byte("…"), text[len(text)-most:]...)
	}
	return fmt.Sprintf("--- %s\n%s", path, text)
}
