package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/doclock/doclock"
)

// guarded is a command that runs under a lease, and ends with it. It has a process
// group of its own, with all that it starts.
type guarded struct {
	lease   doclock.Lease
	kept    context.Context // of KeepAlive: it ends when the lease does
	grace   time.Duration
	limit   time.Time // the lease ends then at the latest; zero for never
	signals <-chan os.Signal
	say     func(on bool, event, format string, args ...any)

	ended error     // why doclock has ended the command; nil if it has not
	kills time.Time // when what is left of it gets a KILL
}

var (
	errLimit      = errors.New("the time of --at-most is over")
	errNotRenewed = errors.New("the lock can't be renewed")
)

// run runs the command to its end. An err in the ending says that it was not started.
// If it was told to end, by a TERM or because of the lease, run also waits for the
// processes that it has started.
func (g *guarded) run(path string, args, env []string) *ending {
	// Linux kills the command when the thread that started it ends.
	runtime.LockOSThread()
	var work sync.WaitGroup
	defer work.Wait()
	ctx, cancel := context.WithCancelCause(g.kept)
	defer cancel(nil)
	cmd := g.command(ctx, &work, path, args, env)
	err := cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) { // a script without a first line such as #!/bin/sh
		cmd = g.command(ctx, &work, "/bin/sh", append([]string{"sh", path}, args[1:]...), env)
		err = cmd.Start()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return &ending{code: exitLost, err: errors.New("the lock was lost, or its time was over, before the command began; it was not run")}
	case err != nil:
		return &ending{code: exitNotExecutable, err: fmt.Errorf("the command can't be executed: %w", err)}
	}
	work.Go(func() { g.endInTime(ctx, cancel) })
	var told atomic.Bool
	forwarded, stop := context.WithCancel(context.Background())
	defer stop()
	work.Go(func() {
		for {
			select {
			case s := <-g.signals:
				if s == syscall.SIGTERM {
					told.Store(true) // before the command can have ended by it
				}
				forward(cmd.Process, s)
			case <-forwarded.Done():
				return
			}
		}
	})
	_ = cmd.Wait() // ctx doesn't end the command any more
	for g.ended == nil && told.Load() && groupLives(cmd.Process) {
		if ctx.Err() != nil {
			_ = cmd.Cancel()
		}
		time.Sleep(look)
	}
	if g.ended != nil && outlives(cmd.Process, g.kills) {
		kill(cmd.Process)
		outlives(cmd.Process, time.Now().Add(time.Second)) // what can't be killed is left
	}
	return endOf(cmd.ProcessState)
}

// look is the pause between two looks at a process group.
const look = 20 * time.Millisecond

// outlives waits until no process of the group lives, and reports whether one still does
// at this time.
func outlives(p *os.Process, until time.Time) bool {
	for groupLives(p) {
		if !time.Now().Before(until) {
			return true
		}
		time.Sleep(look)
	}
	return false
}

// command makes the command, with this process's standard streams. A terminal is no
// input for it: only the terminal's own process group may read there.
func (g *guarded) command(ctx context.Context, work *sync.WaitGroup, path string, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	if errors.Is(cmd.Err, exec.ErrDot) { // it looks the path up again: see lookPath
		cmd.Err = nil
	}
	cmd.Args, cmd.Env, cmd.Stdout, cmd.Stderr = args, env, os.Stdout, os.Stderr
	if !isTerminal(os.Stdin) {
		cmd.Stdin = os.Stdin
	}
	prepare(cmd)
	cmd.WaitDelay = max(g.grace, 1) // 0 is for ever
	cmd.Cancel = func() error {
		g.ended, g.kills = context.Cause(ctx), time.Now().Add(g.grace)
		if !errors.Is(g.ended, errLimit) && !errors.Is(g.ended, errNotRenewed) {
			g.ended = errors.New("the lock is lost")
		}
		forward(cmd.Process, syscall.SIGTERM)
		// Nobody may be reading what is said, and that delays no end.
		work.Go(func() { g.say(true, "lost", "%v: the command gets TERM, and KILL in %v", g.ended, g.grace) })
		return nil
	}
	return cmd
}

// endInTime ends the command before the lease ends that isn't renewed.
func (g *guarded) endInTime(ctx context.Context, cancel context.CancelCauseFunc) {
	for passed(ctx, g.lease.Remaining()-g.grace) {
		if g.lease.Remaining() > g.grace {
			continue
		}
		// The limit counts from before the answer to the acquire.
		const answer = time.Second
		if !g.limit.IsZero() && time.Until(g.limit) <= g.grace+answer {
			cancel(errLimit)
		}
		cancel(errNotRenewed)
		return
	}
}

// endOf is how a command ended, with the exit code that shells give it.
func endOf(state *os.ProcessState) *ending {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &ending{code: signalled(status.Signal()), by: status.Signal()}
	}
	return &ending{code: state.ExitCode()}
}

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

// untilSignal is ctx until a signal that ends programs comes after the first moment,
// deaf. stop ends the wait for it, and returns the signal if there was one.
func untilSignal(ctx context.Context, signals <-chan os.Signal, deaf time.Duration) (until context.Context, stop func() os.Signal) {
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx)
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
