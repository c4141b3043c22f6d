package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A process is a worker, seen from the program that has started it.
type process struct {
	cmd      *exec.Cmd
	in       *json.Encoder
	close    func() error   // closes its input, so that it ends
	messages <-chan message // closed when the process has ended
	ended    chan struct{}
	err      error // of its end, once it has ended
}

// start starts this program again, as a worker. The worker ends when ctx, its work or this process ends.
func start(ctx context.Context, j job) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("scanResult the workers' program: %w", err)
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = 3 * time.Second // and then it is killed
	output, stdout := io.Pipe()
	cmd.Stdout = stdout
	killWithParent(cmd)

	p := &process{cmd: cmd, in: json.NewEncoder(stdin), close: stdin.Close, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux kills the child when the thread that started it ends, so this thread waits for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		_ = stdout.Close()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	messages := make(chan message)
	p.messages = messages
	go func() {
		defer close(messages)
		defer func() { _ = output.Close() }()
		decoder := json.NewDecoder(output)
		for {
			var m message
			if decoder.Decode(&m) != nil {
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := p.in.Encode(j); err != nil {
		p.stop()
		return nil, fmt.Errorf("sending a worker its job: %w", err)
	}
	return p, nil
}

// proceed tells the worker to go on.
func (p *process) proceed() error {
	if err := p.in.Encode(struct{}{}); err != nil {
		return fmt.Errorf("telling worker %d to go on: %w", p.cmd.Process.Pid, err)
	}
	return nil
}

// next returns the worker's next message. It returns an error if the worker ended, or reports that it failed.
func (p *process) next() (message, error) {
	m, ok := <-p.messages
	if !ok {
		<-p.ended
		return message{}, fmt.Errorf("worker %d ended too early: %v", p.cmd.Process.Pid, p.err)
	}
	if m.Error != "" {
		return message{}, fmt.Errorf("worker %d: %s", p.cmd.Process.Pid, m.Error)
	}
	return m, nil
}

// stop makes the worker end, and waits until it has. Further messages are ignored.
func (p *process) stop() {
	_ = p.close()
	for range p.messages { // until it has ended
	}
	<-p.ended
}
