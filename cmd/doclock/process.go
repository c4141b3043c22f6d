package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// process is the command of a run.
type process struct {
	cmd   *exec.Cmd
	own   bool       // it has a process group of its own
	ended <-chan int // gets its exit code
}

// start starts the command with this process's standard streams. It has a
// process group of its own unless stdin is a terminal, which only the foreground
// group may read.
func start(path string, command, env []string) (*process, error) {
	cmd := &exec.Cmd{Path: path, Args: command, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	p := &process{cmd: cmd, own: canGroup && !isTerminal(os.Stdin)}
	prepare(p)
	started, ended := make(chan error), make(chan int, 1)
	p.ended = ended
	go func() {
		// Linux kills the command when the thread that started it ends, so this
		// thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- codeOf(cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return nil, &ending{exitNotExecutable, fmt.Errorf("the command can't be executed: %w", err)}
	}
	return p, nil
}

// codeOf is the exit code of an ended command, as shells give it.
func codeOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exitCode(exit.ProcessState)
	default:
		return exitNotRun
	}
}
