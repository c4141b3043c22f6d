// Package browsertest uses pages in a headless Chromium, as people do: the edit
// form of an example, and the page of "doclock rules --html". It has a module of its
// own, so that only it needs the driver.
package browsertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browsers are the programs that will do, as distributions name them.
var browsers = []string{"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome-stable", "google-chrome"}

// newTab is a tab in a browser of its own.
func newTab(t *testing.T) context.Context {
	t.Helper()
	path, err := chromium(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(800, 620))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

var screenshots = flag.String("screenshots", "screenshots", "the directory for pictures of what is seen")

// keep leaves a screenshot.
func keep(t *testing.T, name string, png []byte) {
	t.Helper()
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// built is a program of this repository, which is built in a module's directory.
func built(t *testing.T, dir, pkg string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", dir, "-o", binary, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

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
