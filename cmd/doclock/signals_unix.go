//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// forwarded are the signals that a command of run gets.
func forwarded() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// surviveBrokenPipes lets a write to a pipe that nobody reads fail. Without it the
// next message on such a stderr would end this process, beside its command.
func surviveBrokenPipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // the command doesn't inherit it, as it would signal.Ignore
}

// suspensions gets a Ctrl-Z while a command with a group of its own runs. The
// kernel itself stops a command in the terminal's foreground group.
func suspensions(own bool) (suspensions <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	if own && !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(c, syscall.SIGTSTP)
	}
	return c, func() { signal.Stop(c) }
}
