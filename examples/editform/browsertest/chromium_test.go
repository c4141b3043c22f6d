package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// browsers are the programs that will do, as distributions name them.
var browsers = []string{"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome-stable", "google-chrome"}

// chromium is the path of a Chromium. If the machine has none, and we may
// install one, it is installed from Debian: about 100 MB.
func chromium(ctx context.Context) (string, error) {
	if path := onPath(); path != "" {
		return path, nil
	}
	_, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return "", fmt.Errorf("no Chromium on PATH (tried %s): install one, or run the test as root on Debian, where it installs the package chromium",
			strings.Join(browsers, ", "))
	}
	fmt.Fprintln(os.Stderr, "browsertest: no Chromium here: installing Debian's package chromium, once for all. This downloads some 100 MB.")
	// The package lists may be as old as the machine: a failure to renew them
	// matters only if the installation fails too.
	renewed := apt(ctx, "update")
	if err := apt(ctx, "install", "--yes", "--no-install-recommends", "chromium"); err != nil {
		return "", errors.Join(renewed, err)
	}
	if path := onPath(); path != "" {
		return path, nil
	}
	return "", errors.New("the package chromium was installed, and there is no Chromium on PATH")
}

func onPath() string {
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
	}
	return nil
}
