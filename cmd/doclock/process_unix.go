//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// signalsOfRun are the signals that a command of run gets.
var signalsOfRun = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// withstand has this process go on beside its command where it would end or stop:
// when it writes to a pipe that nobody reads, and with a Ctrl-Z, as the command runs
// on and needs its lock renewed. A command that reads from the terminal gets an
// error instead of a stop; it inherits that.
func withstand() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGTSTP)
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
}

// killWithParent has the kernel kill the command when this process ends in any way,
// where it can.
var killWithParent = func(*syscall.SysProcAttr) {}

// prepare gives the command a process group of its own.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killWithParent(cmd.SysProcAttr)
}

// forward gives the command a signal. One that ends programs goes to all of its
// group, and continues what is stopped, which would not get it else.
func forward(p *os.Process, s os.Signal) {
	if !ends(s) {
		_ = p.Signal(s)
		return
	}
	_ = syscall.Kill(-p.Pid, s.(syscall.Signal))
	_ = syscall.Kill(-p.Pid, syscall.SIGCONT)
}

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// groupLives reports whether a process of the group has not ended. As process 1, as
// in a container, this process first buries those that nobody else does. Where another
// program is process 1, it may bury none.
func groupLives(p *os.Process) bool {
	for {
		if pid, _ := syscall.Wait4(-p.Pid, nil, syscall.WNOHANG, nil); pid <= 0 {
			return syscall.Kill(-p.Pid, 0) == nil && !unburied(p.Pid)
		}
	}
}

// unburied reports whether all processes of the group are known to have ended.
var unburied = func(group int) bool { return false }

// dieOf ends this process by a signal. Process 1 can't die of one.
func dieOf(s os.Signal) {
	if os.Getpid() != 1 {
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		time.Sleep(time.Second) // another thread may get it
	}
}
