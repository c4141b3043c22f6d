package proof

import (
	"bufio"
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
	covered = regexp.MustCompile(`completely, all others to depth (\d+) at least; (\d+) states`)
)

// model runs the model's own tests, which need no server, and counts what they
// report.
func (p *proof) searchModel(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-timeout=120m", "./proptest/model")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "DOCLOCK_MODEL="+p.model)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	tail := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		tail = (tail + "\n" + line)[max(0, len(tail)+1+len(line)-4000):]
		if m := passed.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			p.counts.Checked(modelRuns, n)
		}
		if m := covered.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			p.counts.Checked(modelWorlds, n)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w:\n%s", err, tail)
	}
	return nil
}
