package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is the command of a run.
type process struct {
	cmd   *exec.Cmd
	own   bool       // it has a process group of its own
	mark  string     // the part of its environment that all have that it starts
	ended <-chan end // gets how it ended
}

// end is how a command ended: by itself, or by a signal.
type end struct {
	code int
	by   os.Signal
}

// start starts the command with this process's standard streams. It has a
// process group of its own, unless there is a terminal. Only the terminal's
// foreground group may use it, and the command may ask there for a password,
// wherever its stdin comes from.
func start(path string, command, env []string, mark string) (*process, error) {
	p := &process{own: canGroup && !hasTerminal(), mark: mark}
	started, ended := make(chan error), make(chan end, 1)
	p.ended = ended
	go func() {
		// Linux kills the command when the thread that started it ends, so this
		// thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.exec(path, command, env)
		if errors.Is(err, syscall.ENOEXEC) { // a script without a first line such as #!/bin/sh
			err = p.exec("/bin/sh", append([]string{"sh", path}, command[1:]...), env)
		}
		started <- err
		if err == nil {
			ended <- endOf(p.cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return nil, &ending{code: exitNotExecutable, err: fmt.Errorf("the command can't be executed: %w", err)}
	}
	return p, nil
}

func (p *process) exec(path string, command, env []string) error {
	p.cmd = &exec.Cmd{Path: path, Args: command, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	prepare(p)
	return p.cmd.Start()
}

// endOf is how a command ended, with the exit code that shells give it.
func endOf(err error) end {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return end{}
	case !errors.As(err, &exit):
		return end{code: exitNotRun}
	}
	if by := endedBy(exit.ProcessState); by != nil {
		return end{signalled(by), by}
	}
	return end{code: exit.ExitCode()}
}
