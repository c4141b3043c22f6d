package main

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
)

// The command gets the signals, once each, and the lock is held until it ends.
func TestRunForwardsSignals(t *testing.T) {
	p := newPlace(t)
	r := p.run([]string{"nightly"}, "stubborn")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if signal.Ignored(s) {
			continue // under nohup a hangup stays ignored
		}
		r.signal(s)
		r.says("got " + s.String())
		if n := r.out.count("got " + s.String()); n != 1 {
			t.Errorf("%d times %v", n, s)
		}
	}
	if e := p.entries("nightly"); len(e) != 1 || e[0].Expired() {
		t.Errorf("the entries are %v", e)
	}
	r.exits(4)
	p.free("nightly")
}

// A SIGTERM ends the command, its exit code is passed on, and nothing is left.
func TestRunSIGTERM(t *testing.T) {
	p := newPlace(t)
	r := p.run([]string{"nightly"})
	r.signal(syscall.SIGTERM)
	r.ends(9)
	p.free("nightly")
}

// While it waits, a signal ends run, and no entry is left: neither of a waiter
// that has a place in the queue, nor of one that has none.
func TestRunSIGTERMWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"exclusive": {"nightly"}, "semaphore": {"nightly", "-n", "1"}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			holder := p.run(flags)
			for s, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
				r := p.start(runArguments(append(flags, "-v"), nil)...)
				r.says("waiting")
				r.signal(s)
				r.ends(code)
				if r.out.count("started") > 0 {
					t.Error("the command was started")
				}
				if e := p.entries("nightly"); len(e) != 1 || e[0].State != admin.Held {
					t.Errorf("the entries are %v", e)
				}
			}
			holder.exits(0)
		})
	}
}

// startOnTerminal starts the command line with a terminal of its own.
func (p *place) startOnTerminal(cmd *exec.Cmd) *running {
	p.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		p.Fatal(err)
	}
	r := &running{place: p, cmd: cmd}
	r.begun(terminal, terminal)
	return r
}

// gone reports whether a process has ended, or only its parent doesn't know yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// A kill -9 of doclock: the kernel kills the command, and the entry keeps others
// out until the TTL is over. The next one gets it then, with a greater fence.
func TestRunKill9(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the command")
	}
	p := newPlace(t)
	r := p.run([]string{"nightly", "--ttl", "6s"}, "stubborn")
	r.signal(syscall.SIGKILL)
	r.ends(137)
	fixture.Eventually(t, "the command is killed", func() bool { return gone(r.started()[0]) })
	begun := time.Now()
	left := p.entries("nightly")
	if len(left) != 1 {
		t.Fatalf("the entries are %v", left)
	}
	next := p.run([]string{"nightly"})
	if e := p.entries("nightly"); len(e) != 1 || e[0].Fence <= left[0].Fence {
		t.Errorf("after %v the entries are %v", left, e)
	}
	if waited := time.Since(begun); left[0].Remaining > waited+time.Second {
		t.Errorf("the next one waited for %v; %v were left", waited, left[0].Remaining)
	}
	next.exits(0)
}

// What the command has started is not killed with doclock: the documented limit.
func TestRunKill9LeavesTheGrandchildren(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the command")
	}
	p := newPlace(t)
	r := p.run([]string{"nightly", "--ttl", "1m"}, "parent")
	fixture.Eventually(t, "both have started", func() bool { return len(r.started()) == 2 })
	r.signal(syscall.SIGKILL)
	r.endsAlone(137)
	fixture.Eventually(t, "one of them is killed", func() bool {
		pids := r.started()
		return gone(pids[0]) != gone(pids[1])
	})
}

// stopped reports whether a process is stopped.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") T ")
}

// A SIGTERM ends a command that is stopped: the lock is not renewed for one that can't
// go on.
func TestRunSIGTERMWhileStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test looks at /proc")
	}
	p := newPlace(t)
	stop := func(r *running) {
		pid := r.started()[0]
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		fixture.Eventually(t, "it is stopped", func() bool { return stopped(pid) })
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		r := p.run([]string{"nightly", "--ttl", "1m"})
		stop(r)
		r.signal(s)
		r.ends(9)
		p.free("nightly")
	}
}
