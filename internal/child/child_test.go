package child_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/child"
)

func TestMain(m *testing.M) {
	child.Main("echo", echo)
	os.Exit(m.Run())
}

// echo prints its lines, but "fail" fails, and "wait" waits for the parent's end.
func echo(ctx context.Context, lines []string) error {
	fmt.Println("ready")
	if err := child.Await(ctx); err != nil {
		return err
	}
	for _, line := range lines {
		switch line {
		case "fail":
			return errors.New("no\nway")
		case "wait":
			<-ctx.Done()
		default:
			fmt.Println(line)
		}
	}
	return nil
}

// same is the job of three processes.
func same(lines ...string) [][]string { return [][]string{lines, lines, lines} }

func TestTogether(t *testing.T) {
	heard := make([][]string, 3)
	err := child.Together(t.Context(), "echo", same("a b", "c"), func(i int, line string) error {
		heard[i] = append(heard[i], line)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, lines := range heard {
		if !slices.Equal(lines, []string{"a b", "c"}) {
			t.Errorf("heard %q", heard)
		}
	}
}

// The others, which would wait for ever, are killed.
func TestTogetherEndsWithTheFirstError(t *testing.T) {
	enough := errors.New("enough")
	err := child.Together(t.Context(), "echo", same("a", "wait"), func(int, string) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	err = child.Together(t.Context(), "echo", same("fail"), func(int, string) error { return nil })
	if err == nil || err.Error() != "no; way" {
		t.Errorf("got %v, want what the child says", err)
	}
}

func TestEndLetsTheChildEnd(t *testing.T) {
	p, err := child.Start(t.Context(), "echo", []string{"wait", "last"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.Hear(); line != "ready" || err != nil {
		t.Errorf("heard %q, %v", line, err)
	}
	if err := errors.Join(p.Proceed(), p.End()); err != nil {
		t.Error(err)
	}
	if _, err := p.Hear(); err == nil || !strings.Contains(err.Error(), "ended early") {
		t.Errorf("after its end: %v", err)
	}
}

func TestKill(t *testing.T) {
	var lines []string
	p, err := child.Start(t.Context(), "echo", nil, func(p *child.Process, line string) {
		lines = append(lines, line)
		p.Stop()
		p.Kill() // also if it is stopped
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if err := p.End(); err == nil || !slices.Equal(lines, []string{"ready"}) {
		t.Errorf("it ended with %v, and printed %q", err, lines)
	}
}
