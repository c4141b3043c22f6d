package mongotest

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// recipe numbers the way in which the cache is laid out and filled, and the words that processes exchange with the
// supervisor. Whoever changes one of them raises it, so that an older build's cache and supervisor are left alone.
const recipe = "1"

// A cache is the directory that outlives the tests: what was downloaded and built, the lock that orders those who
// want it, and the supervisor's socket. Its path tells one user's server from another's.
type cache struct{ dir string }

// openCache finds the cache's place, also without a home directory, and makes the directory.
func openCache() (cache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		// No HOME: a directory under /tmp, which must then be nobody else's.
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

// socket is where the supervisor listens. Socket paths are limited to about a hundred bytes, so that a deep cache
// directory has its socket under /tmp, named after the cache.
func (c cache) socket() string {
	if path := c.path("supervisor.sock"); len(path) < 100 {
		return path
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(c.dir)) // a hash never fails
	return filepath.Join(os.TempDir(), fmt.Sprintf("doclock-%d-%x.sock", os.Getuid(), sum.Sum64()))
}

// tail returns the end of a log file, for an error that has to show what a server said.
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
