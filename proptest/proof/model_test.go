package proof

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

const (
	modelRuns   = "model, random: runs that keep every property"
	modelWorlds = "model, exhaustive: states that keep every property"
)

var (
	passed  = regexp.MustCompile(`(\d+) walks of`)
	covered = regexp.MustCompile(`completely, all others to depth \d+ at least; (\d+) states`)
)

// model runs the model's own tests, which need no server, and counts what they
// report.
func (p *proof) searchModel(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-timeout=120m", "./proptest/model")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "DOCLOCK_MODEL="+p.model)
	out, err := cmd.CombinedOutput()
	for property, counted := range map[string]*regexp.Regexp{modelRuns: passed, modelWorlds: covered} {
		for _, m := range counted.FindAllSubmatch(out, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			p.counts.Checked(property, n)
		}
	}
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out[max(0, len(out)-4000):])
	}
	return nil
}
