//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A process is a child that must not outlive us. Its output goes to a file,
// which is shown only after a failure.
type process struct {
	log   string
	child *os.Process
	ended chan struct{} // closed once it has been waited for
}

func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a server's log: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	tie(cmd)

	p := &process{log: log, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills a tied child when the thread that started it ends,
		// so this thread waits for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.child = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // the server's log has the reason
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// says waits until the process has written these words to its log.
func (p *process) says(ctx context.Context, words string) error {
	return p.wait(ctx, func() bool {
		text, err := os.ReadFile(p.log)
		return err == nil && strings.Contains(string(text), words)
	})
}

// wait waits until the process is ready. It fails if the process ends before.
func (p *process) wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("it ended while starting\n%s", tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("it did not start: %w\n%s", context.Cause(ctx), tail(p.log))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// kill ends the process and all its descendants at once, and returns when they
// have ended. The process is stopped first, so that it starts no children during
// the count.
func (p *process) kill() error {
	select {
	case <-p.ended:
		return nil // its number may belong to another process by now
	default:
	}
	if err := p.child.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping a server: %w", err)
	}
	family := append(descendants(p.child.Pid), p.child.Pid)
	for _, pid := range family {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing a server: %w", err)
		}
	}
	<-p.ended
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		family = alive(family)
		if len(family) == 0 {
			return nil
		}
		if time.Since(began) > 10*time.Second {
			return fmt.Errorf("processes %v do not die", family)
		}
	}
}

// A crew is the processes of one server, in the order of their start. All
// servers that run on this machine without a container use it.
type crew []*process

func (c crew) kill() error {
	var errs []error
	for _, p := range c {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}

// ended reports whether one of them has ended.
func (c crew) ended() bool {
	for _, p := range c {
		select {
		case <-p.ended:
			return true
		default:
		}
	}
	return false
}
