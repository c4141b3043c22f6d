package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// notified gets these signals, but not those that the parent has told this
// process to ignore, as nohup does.
func notified(which ...os.Signal) (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	for _, s := range which {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c, func() { signal.Stop(c) }
}

// untilSignal is a context that ends with a signal that ends programs and comes
// after the first moment, deaf. stop ends the wait for it, and returns the signal
// if there was one.
func untilSignal(signals <-chan os.Signal, deaf time.Duration) (ctx context.Context, stop func() os.Signal) {
	begun := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var got os.Signal
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-signals:
				if ends(s) && time.Since(begun) >= deaf {
					got = s
					cancel()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() os.Signal {
		cancel()
		<-ended
		return got
	}
}

// ends reports whether a signal ends a program that does nothing about it.
func ends(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// signalled is the exit code of a program that a signal has ended.
func signalled(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
