//go:build unix

package mongotest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const ferretModule = "github.com/FerretDB/FerretDB/v2/cmd/ferretdb@v2.7.0"

// compileFerret builds FerretDB for this machine, whatever build settings the
// test's environment has.
func compileFerret(ctx context.Context, build string, say *progress) error {
	return say.step(ctx, "building FerretDB", func(ctx context.Context) error {
		env := append(os.Environ(),
			"GOBIN="+build, "CGO_ENABLED=0", // static: it runs in another Debian
			"GOFLAGS=-trimpath", // not empty: that would give way to the user's `go env -w GOFLAGS`
			"GOWORK=off", "GO111MODULE=on", "GOEXPERIMENT=",
		)
		if os.Getenv("HOME") == "" {
			env = append(env, "HOME="+filepath.Join(build, "home"))
		}
		ask := exec.CommandContext(ctx, "go", "env", "GOHOSTOS", "GOHOSTARCH")
		ask.Env = env
		host, err := ask.CombinedOutput()
		if err != nil {
			return fmt.Errorf("asking go for this machine's kind: %w\n%s", err, host)
		}
		kind := strings.Fields(string(host))
		if len(kind) != 2 {
			return fmt.Errorf("go does not know this machine's kind: %q", host)
		}
		cmd := exec.CommandContext(ctx, "go", "install", ferretModule)
		cmd.Dir = build // outside of any module
		env = append(env, "GOOS="+kind[0], "GOARCH="+kind[1])
		cmd.Env = env
		return runLogged(cmd, filepath.Join(build, "go.log"))
	})
}
