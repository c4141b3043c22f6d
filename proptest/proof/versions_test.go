package proof

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/simulation"
	"github.com/doclock/doclock/proptest/tally"
)

// This file runs two versions of the library on the same documents: what is in a
// document, and what the commands do to it, is a contract between versions.

// oldest is the first version without a fault that such histories find.
const oldest = "0457ab0"

var (
	older    = flag.String("older", "", "the commit that every second process of the two versions runs; without it "+oldest+", if this clone has it")
	versions = flag.Duration("versions", 0, "how long TestVersions makes histories")
)

// TestVersions makes histories of two versions, and nothing else:
//
//	go test -C proptest/proof -v -timeout 1h -run TestVersions . -args -versions 3m -older 0457ab0
func TestVersions(t *testing.T) {
	if *versions == 0 {
		t.Skip("no time is given: -versions 3m")
	}
	p := &proof{T: t, size: full, begun: time.Now()}
	if err := p.versions(t.Context(), mongotest.URI(t), *versions); err != nil {
		t.Error(err)
	}
	for _, failure := range p.counts.Failures() {
		t.Error(failure)
	}
}

// versions makes histories of this commit and an older one. Each judges its own ledger; this
// program's checker judges the history.
func (p *proof) versions(ctx context.Context, uri string, d time.Duration) error {
	commit := *older
	if commit == "" {
		commit = oldest
		if _, err := output(ctx, root, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
			fmt.Printf("LEFT OUT: two versions: this clone doesn't have commit %s; fetch all commits\n", commit)
			return nil
		}
	}
	program, err := p.build(ctx, commit)
	if err != nil {
		return err
	}
	this, err := output(ctx, root, "git", "describe", "--always", "--dirty")
	if err != nil {
		return err
	}
	fmt.Printf("%6.0f s    %s beside %s\n", time.Since(p.begun).Seconds(), this, commit)
	return p.beside(ctx, uri, program, d, func(*history.History) {})
}

// beside makes histories with faults for that long. Two processes are this program, and two
// are the other one.
func (p *proof) beside(ctx context.Context, uri, other string, d time.Duration, note func(*history.History)) error {
	const operations = 2_000
	var counts tally.Tally
	rounds, begun := 0, time.Now()
	for ; rounds == 0 || time.Since(begun) < d; rounds++ {
		h, err := p.simulated(ctx, simulation.ServerConfig{
			URI: uri, Other: other, Processes: 4, CallersPerProcess: 8, Operations: operations, Faults: true,
		}, rounds, &counts)
		if err != nil {
			return err
		}
		note(h)
	}
	fmt.Printf("%6.0f s    %d rounds of %d operations, %d attempts, %d granted, %d violations\n", time.Since(p.begun).Seconds(),
		rounds, operations, counts.Outcomes[history.SeenAttempts], counts.Outcomes[history.SeenGranted], violations(&counts))
	p.counts.Merge(&counts)
	return nil
}

func violations(t *tally.Tally) (sum int) {
	for _, n := range t.Violations {
		sum += n
	}
	return sum
}

// build builds the simulation's processes as they were in the commit.
func (p *proof) build(ctx context.Context, commit string) (program string, err error) {
	dir := p.TempDir()
	archive := filepath.Join(dir, "source.tar")
	if _, err := output(ctx, root, "git", "archive", "--output="+archive, commit); err != nil {
		return "", fmt.Errorf("the source of %s: %w", commit, err)
	}
	if _, err := output(ctx, dir, "tar", "-xf", archive); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "older.test")
	_, err = output(ctx, dir, "go", "test", "-c", "-o", program, "./proptest/simulation")
	return program, err
}

// output is that of a program that runs in a directory.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
