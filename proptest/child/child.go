// Package child starts the running program again, as further processes that use
// the library at the same time, and can be killed and stopped.
//
//	func TestMain(m *testing.M) {
//		child.Main("workers", work) // in the child: runs work, and ends the process
//		mongotest.Main(m)
//	}
//
//	p, err := child.Start(ctx, "workers", []string{uri, name}, func(p *child.Process, line string) { … })
package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const variable = "DOCLOCK_CHILD"

// Main runs the task if the process was started under this name, and then does
// not return. The task's ctx ends when the parent calls [Process.End], or is gone.
// An error is printed as a line "failed …".
func Main(name string, task func(ctx context.Context, args []string) error) {
	args := strings.Fields(os.Getenv(variable))
	if len(args) == 0 || args[0] != name {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := task(ctx, args[1:]); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a child.
type Process struct {
	cmd  *exec.Cmd
	in   io.Closer
	read chan struct{} // its output was read to the end
	end  func() error
}

// Start starts a child. Each line of its output is passed to note, in one
// goroutine. A process that was killed may have left half of its last line. The end of
// ctx kills it. The arguments have no spaces.
func Start(ctx context.Context, name string, args []string, note func(p *Process, line string)) (*Process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), variable+"="+name+" "+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
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
	p := &Process{cmd: cmd, in: in, read: make(chan struct{})}
	p.end = sync.OnceValue(func() error {
		_ = p.in.Close()
		<-p.read
		return p.cmd.Wait()
	})
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			note(p, lines.Text())
		}
	}()
	return p, nil
}

// Kill kills the process (-9). It may have ended before.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Stop stops the process (SIGSTOP).
func (p *Process) Stop() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (p *Process) Continue() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Done is closed at the end of the process's output. All of its lines have been
// noted by then.
func (p *Process) Done() <-chan struct{} { return p.read }

// End closes the process's input, waits for its end, and returns how it ended. All
// lines of its output have been noted by then.
func (p *Process) End() error { return p.end() }

// Connect connects to a server, and counts the commands that are sent.
func Connect(uri string) (*mongo.Client, *atomic.Int64, error) {
	var commands atomic.Int64
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.DatabaseName != "admin" {
				commands.Add(1)
			}
		},
	}))
	return client, &commands, err
}
