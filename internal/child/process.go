package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Process is a child.
type Process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string   // for Hear
	read  chan struct{} // its output was read to the end
	end   func() error
}

// Start starts a child, with a job that JSON can carry. Each line of its output is
// passed to note, in one goroutine; if note is nil, [Process.Hear] returns them. A
// process that was killed may have left half of its last line. The end of ctx
// kills it.
func Start(ctx context.Context, name string, job any, note func(p *Process, line string)) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the program of a child process: %w", err)
	}
	return StartProgram(ctx, program, name, job, note)
}

// StartProgram is Start of another program, such as a client in another language.
func StartProgram(ctx context.Context, program, name string, job any, note func(p *Process, line string)) (*Process, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), variable+"="+name+" "+string(text))
	cmd.Stderr = os.Stderr
	Tie(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in, lines: make(chan string), read: make(chan struct{})}
	if note == nil {
		note = func(p *Process, line string) { p.lines <- line }
	}
	p.end = sync.OnceValue(func() error {
		_ = p.in.Close()
		for range p.lines { // nobody hears them any more
		}
		return p.cmd.Wait()
	})
	go func() {
		defer close(p.lines)
		defer close(p.read)
		const longest = 16 << 20
		lines := bufio.NewScanner(out)
		for lines.Buffer(nil, longest); lines.Scan(); {
			note(p, lines.Text())
		}
	}()
	return p, nil
}

// Hear returns the next line. An error says that the process has ended, or that its
// task has failed.
func (p *Process) Hear() (string, error) {
	line, ok := <-p.lines
	if !ok {
		return "", errors.Join(fmt.Errorf("process %d ended early", p.Pid()), p.End())
	}
	return line, failure(line)
}

// failure is the error that a task ended with, if the line says so.
func failure(line string) error {
	if why, failed := strings.CutPrefix(line, failed); failed {
		return errors.New(why)
	}
	return nil
}

// Proceed lets [Await] return in the child, once.
func (p *Process) Proceed() error {
	_, err := fmt.Fprintln(p.in)
	return err
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill kills the process (-9). It may have ended before.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Done is closed at the end of the process's output. All of its lines have been
// noted by then.
func (p *Process) Done() <-chan struct{} { return p.read }

// End closes the process's input, waits for its end, and returns how it ended. All
// lines of its output have been noted by then.
func (p *Process) End() error { return p.end() }
