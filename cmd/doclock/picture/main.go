package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/creack/pty"
	"github.com/doclock/doclock/internal/mongotest"
)

// columns is the width of the terminal.
const columns = 100

// step is a line that is typed, what is typed when a text has appeared, and what
// is done before.
type step struct {
	typed, when, answer string
}

var steps = []step{
	{typed: "doclock check"},
	{typed: "doclock ls -c shop.orders --older 1h"},
	{typed: "doclock inspect -c shop.orders A-17"},
	{typed: "doclock break -c shop.orders A-17", when: "[y/N] ", answer: "y\n"},
	{typed: "doclock release-owner -c shop.orders web-7/31/api", when: "[y/N] ", answer: "y\n"},
	{typed: "doclock sweep -c shop.orders"},
	{typed: "doclock watch -c shop.orders", when: "\x1b[J", answer: "\x03"},
	{typed: "doclock index -c shop.orders write"},
	{typed: "doclock run nightly -v -- sh -c 'echo \"backing up, fence $DOCLOCK_FENCE\"; exit 3'; echo \"exit code $?\""},
	{typed: "doclock run import --wait 0 -- ./import.sh; echo \"exit code $?\""},
	{typed: "doclock rules write-preferring"},
	{typed: "doclock ls --json | jq -r .owner"},
}

func main() {
	if err := draw(context.Background(), filepath.Join("..", "..", "docs", "img", "cli.svg")); err != nil {
		log.Fatal(err)
	}
}

func draw(ctx context.Context, file string) error {
	dir, err := os.MkdirTemp("", "doclock-picture")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "doclock"), ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("run it in cmd/doclock: %w", err)
	}
	server, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer server.Close()
	clear, err := furnish(ctx, server.URI(), dir)
	if err != nil {
		return err
	}
	defer clear()
	env := append(os.Environ(), "MONGODB_URI="+server.URI(), "PATH="+dir+":"+os.Getenv("PATH"), "TERM=xterm-256color")
	var lines []string
	for _, s := range steps {
		out, err := s.run(dir, env)
		if err != nil {
			return err
		}
		lines = append(lines, "\x1b[32m$\x1b[0m \x1b[1m"+s.typed+"\x1b[0m")
		for line := range strings.SplitSeq(strings.TrimRight(out, "\n"), "\n") {
			lines = append(lines, wrapped(line)...)
		}
		lines = append(lines, "")
	}
	return os.WriteFile(file, []byte(svg(lines[:len(lines)-1])), 0o644)
}

// run runs one line in a shell with a terminal, and returns what the terminal
// shows when it is done.
func (s step) run(dir string, env []string) (string, error) {
	cmd := exec.Command("sh", "-c", s.typed)
	cmd.Dir, cmd.Env = dir, env
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 12, Cols: columns})
	if err != nil {
		return "", err
	}
	defer terminal.Close()
	var shown strings.Builder
	buffer := make([]byte, 4096)
	for answered := s.when == ""; ; {
		n, err := terminal.Read(buffer)
		shown.Write(buffer[:n])
		if !answered && strings.Contains(shown.String(), s.when) {
			answered = true
			if _, err := io.WriteString(terminal, s.answer); err != nil {
				return "", err
			}
		}
		if err != nil { // a terminal's end is an error
			break
		}
	}
	_ = cmd.Wait() // its exit code is a part of what is shown
	return screen(shown.String()), nil
}

// wrapped is a long line as a terminal shows it.
func wrapped(line string) (lines []string) {
	for text := []rune(line); ; text = text[columns:] {
		if len(text) <= columns || strings.Contains(line, "\x1b") {
			return append(lines, string(text))
		}
		lines = append(lines, string(text[:columns]))
	}
}

// screen is what a terminal shows after this output. Of the sequences that move
// things, it knows those of watch and of a progress line.
func screen(out string) string {
	out = strings.ReplaceAll(out, "\r\n", "\n")
	if _, rest, ok := strings.Cut(out, "\x1b[H"); ok { // the first round of watch
		out, _, _ = strings.Cut(rest, "\x1b[J")
		out += "\n^C"
	}
	for _, sequence := range []string{"\x1b[K", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h", "\x1b[?25l", "\x1b[?7h", "\x1b[?7l"} {
		out = strings.ReplaceAll(out, sequence, "")
	}
	var b strings.Builder
	for line := range strings.Lines(out) {
		if i := strings.LastIndex(strings.TrimRight(line, "\n"), "\r"); i >= 0 {
			line = line[i+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}
