//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// canGroup: a command can have a process group of its own.
const canGroup = true

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	_, ok := foregroundGroup()
	return ok
}

// foregroundGroup is the process group that may use the controlling terminal, and
// that gets what is typed as a signal.
func foregroundGroup() (group int, ok bool) {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return group, err == nil
}

func prepare(p *process) {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: p.own}
	killWithParent(p.cmd.SysProcAttr)
}

// sendAll sends a signal to the command and to what it has started: to its
// group, if that is its own, or else to each process.
func (p *process) sendAll(s syscall.Signal) {
	if p.own {
		send(-p.cmd.Process.Pid, s)
		return
	}
	members := p.members()      // before the command's end takes their parent away
	_ = p.cmd.Process.Signal(s) // also where nothing is known of others
	for _, pid := range members {
		if pid != p.cmd.Process.Pid {
			send(pid, s)
		}
	}
}

// send sends a signal. If nobody is left to get it, that is as well.
func send(pid int, s syscall.Signal) { _ = syscall.Kill(pid, s) }

// forward gives the command a signal that this process got. Those that end
// programs go to all that it has started, and continue what is stopped: it would
// not get them else. In a terminal's foreground group the terminal has sent INT
// and QUIT itself.
func (p *process) forward(s os.Signal) {
	switch s := s.(syscall.Signal); s {
	case syscall.SIGINT, syscall.SIGQUIT:
		if group, ok := foregroundGroup(); p.own || !ok || group != syscall.Getpgrp() {
			p.sendAll(s)
		}
	case syscall.SIGTERM:
		p.sendAll(s)
	default:
		send(p.cmd.Process.Pid, s)
	}
	if ends(s) {
		p.proceed()
	}
}

// suspend stops the command's group and this process, as a terminal's Ctrl-Z
// stops all of a foreground group, and continues the group when this process is
// continued.
func (p *process) suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	p.sendAll(syscall.SIGTSTP)
	send(syscall.Getpid(), syscall.SIGSTOP)
	<-continued // the call before may return before this process is stopped
	p.sendAll(syscall.SIGCONT)
}

// terminate asks the command to end, also if it is stopped.
func (p *process) terminate() {
	p.sendAll(syscall.SIGTERM)
	p.proceed()
}

// proceed continues what is stopped.
func (p *process) proceed() { p.sendAll(syscall.SIGCONT) }

func (p *process) kill() { p.sendAll(syscall.SIGKILL) }

// dieOf ends this process by a signal. Process 1, as in a container, can't die of
// one.
func dieOf(s os.Signal) {
	if s, ok := s.(syscall.Signal); ok && os.Getpid() != 1 {
		signal.Reset(s)
		send(syscall.Getpid(), s)
		time.Sleep(time.Second) // another thread may get it
	}
}

func endedBy(state *os.ProcessState) os.Signal {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return nil
}
