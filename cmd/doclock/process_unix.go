//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// canGroup: a command can have a process group of its own.
const canGroup = true

func prepare(p *process) {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: p.own}
	killWithParent(p.cmd.SysProcAttr)
}

// all is what kill needs to reach the command, and its group if that is its own.
func (p *process) all() int {
	if p.own {
		return -p.cmd.Process.Pid
	}
	return p.cmd.Process.Pid
}

// send sends a signal. If nobody is left to get it, that is as well.
func send(pid int, s syscall.Signal) { _ = syscall.Kill(pid, s) }

// forward gives the command a signal that this process got. Those that end
// programs go to its whole group. In a terminal's foreground group the terminal
// has sent them itself.
func (p *process) forward(s os.Signal) {
	switch s := s.(syscall.Signal); s {
	case syscall.SIGINT, syscall.SIGQUIT:
		if p.own {
			send(p.all(), s)
		}
	case syscall.SIGTERM:
		send(p.all(), s)
	default:
		send(p.cmd.Process.Pid, s)
	}
}

// suspend stops the command's group and this process, as a terminal's Ctrl-Z
// stops all of a foreground group, and continues the group when this process is
// continued.
func (p *process) suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	send(p.all(), syscall.SIGTSTP)
	send(syscall.Getpid(), syscall.SIGSTOP)
	<-continued // the call before may return before this process is stopped
	send(p.all(), syscall.SIGCONT)
}

// terminate asks the command to end, also if it is stopped.
func (p *process) terminate() {
	send(p.all(), syscall.SIGTERM)
	send(p.all(), syscall.SIGCONT)
}

func (p *process) kill() { send(p.all(), syscall.SIGKILL) }

// endOthers waits until the rest of the group has ended too, and kills it when
// the time is up.
func (p *process) endOthers(timeUp <-chan time.Time) {
	if !p.own {
		return
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for syscall.Kill(p.all(), 0) == nil {
		select {
		case <-look.C:
		case <-timeUp:
			p.kill()
			return
		}
	}
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
