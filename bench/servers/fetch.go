package servers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// find looks for a program on PATH and in the benchmark's cache. Otherwise it
// downloads the Debian packages that have it and unpacks them into the cache;
// nothing is installed.
func find(ctx context.Context, name, packages string, say func(string, ...any)) (program string, environment []string, err error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	root := filepath.Join(base, "doclock", "bench", name)
	program = filepath.Join(root, "usr/bin", name)
	if _, err := os.Stat(program); err != nil {
		say("fetching Debian's %s into %s (some 10 MB; nothing is installed)", packages, root)
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		fetch := exec.CommandContext(ctx, "sh", "-ec", fetching)
		fetch.Env = append(os.Environ(), "root="+root, "packages="+packages)
		if out, err := fetch.CombinedOutput(); err != nil {
			return "", nil, fmt.Errorf("no %s on PATH, and fetching Debian's failed: %w: %s", name, err, bytes.TrimSpace(out))
		}
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) == 0 {
		return program, nil, err
	}
	return program, []string{"LD_LIBRARY_PATH=" + libraries[0]}, nil
}

// fetching unpacks $packages beside $root, and renames the directory to $root when
// it is complete. root may read the lists of packages anew, if they are old or missing.
const fetching = `
	mkdir -p "${root%/*}"
	dir=$(mktemp -d "${root%/*}/fetch-XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	cd "$dir"
	apt-get -q download $packages || { [ "$(id -u)" = 0 ] && apt-get -q update && apt-get -q download $packages; }
	for archive in *.deb; do dpkg -x "$archive" root; done
	mv root "$root"`
