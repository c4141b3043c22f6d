package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// At a terminal a loss ends all that the command has started, also the child of
// a process that has ended, and a child in a group of its own.
func TestRunLostAtATerminal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what a command has started")
	}
	p := newPlace(t)
	script := `("$0" ` + childArgument + ` stubborn &); set -m; "$0" ` + childArgument + ` stubborn & exec "$0" ` + childArgument
	r := p.startOnTerminal(p.command("run", "nightly", "--ttl", "8s", "--grace", "4s", "--", "bash", "-c", script, os.Args[0]))
	fixture.Eventually(t, "all have started", func() bool { return len(r.started()) == 3 })
	p.broken("nightly")
	fixture.Eventually(t, "all get a TERM", func() bool { return r.out.count("got terminated") == 3 })
	r.endsAlone(exitLost)
	for _, pid := range r.started() {
		fixture.Eventually(t, "it is gone", func() bool { return gone(pid) })
	}
}

// A command whose stdin comes from elsewhere asks at the terminal, as for a
// password.
func TestRunReadsTheTerminal(t *testing.T) {
	p := newPlace(t)
	cmd := p.command("run", "nightly", "--", "sh", "-c", `echo ready; read -r word < /dev/tty; echo "the word is $word"`)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `exec "$0" "$@" < /dev/null`}, append([]string{os.Args[0]}, cmd.Args[1:]...)...)
	r := p.startOnTerminal(cmd)
	r.says("ready")
	r.tell("geheim")
	r.says("the word is geheim")
	r.ends(0)
}

// A Ctrl-C that ends the command, or a doclock without one, ends doclock by the
// signal: so a shell ends its loop, too. A command that ends with 130 by itself
// does not.
func TestCtrlCEndsLoops(t *testing.T) {
	p := newPlace(t)
	loop := func(args ...string) *exec.Cmd {
		cmd := p.command(args...)
		cmd.Path, cmd.Args = lookedUp(t, "bash"), append([]string{"bash", "-c", `for i in 1 2; do echo "round $i"; "$0" "$@"; done`, os.Args[0]}, cmd.Args[1:]...)
		return cmd
	}
	holder := p.run([]string{"held"})
	for wait, args := range map[string][]string{
		"ready":   {"run", "nightly", "--", "sh", "-c", "echo ready; exec sleep 60"},
		"waiting": {"run", "held", "--", "true"},
	} {
		r := p.startOnTerminal(loop(args...))
		r.says(wait)
		r.types("\x03")
		r.ends(130)
		if r.out.count("round") != 1 {
			t.Errorf("%q: the loop goes on", args)
		}
	}
	r := p.startOnTerminal(loop("run", "nightly", "--", "sh", "-c", "exit 130"))
	r.says("round 2")
	r.ends(130)
	holder.exits(0)
	p.free("nightly")
}

func lookedUp(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// In the background of a terminal nothing is typed for it, so an INT is forwarded.
func TestRunSIGINTInTheBackground(t *testing.T) {
	p := newPlace(t)
	cmd := p.command(runArguments([]string{"nightly"}, nil)...)
	cmd.Path, cmd.Args = lookedUp(t, "bash"), append([]string{"bash", "-c", `set -m; "$0" "$@" < /dev/null & read -r; kill -INT $!; wait $!`, os.Args[0]}, cmd.Args[1:]...)
	r := p.startOnTerminal(cmd)
	r.says("started")
	r.tell("")
	r.says("got interrupt")
	r.ends(9)
	p.free("nightly")
}

// The Ctrl-C that has ended the command doesn't end the release after it.
func TestRunCtrlCDuringTheRelease(t *testing.T) {
	p := newPlace(t)
	way := p.proxied()
	for late := true; late; { // a Ctrl-C that comes after a second is meant for the release
		r := p.run([]string{"nightly", "--ttl", "1m"})
		release := way.net.ArmWhere(faultnet.DelayReply, func(command string, _ bson.Raw) bool { return command == "update" || command == "findAndModify" })
		begun := time.Now()
		r.tell("exit 3")
		<-release.Fired()
		r.signal(syscall.SIGINT)
		late = time.Since(begun) > time.Second
		time.Sleep(200 * time.Millisecond) // doclock has seen it, or there is nothing to see
		if err := release.Let(); err != nil {
			t.Error(err)
		}
		if late {
			<-r.end
			continue
		}
		r.ends(3)
		p.free("nightly")
	}
}

// A TERM goes to all of the command, and the lock is held until all have ended.
func TestRunSIGTERMWaitsForAll(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test looks at /proc")
	}
	p := newPlace(t)
	script := `echo "started $$"; "$0" ` + childArgument + ` stubborn; true`
	for name, start := range map[string]func(*exec.Cmd) *running{"in the background": p.startAs, "at a terminal": p.startOnTerminal} {
		r := start(p.command("run", "nightly", "--", "sh", "-c", script, os.Args[0]))
		fixture.Eventually(t, "both have started", func() bool { return len(r.started()) == 2 })
		r.signal(syscall.SIGTERM)
		r.says("got terminated")
		fixture.Eventually(t, "the shell has ended", func() bool { return gone(r.started()[0]) })
		if e := p.entries("nightly"); len(e) != 1 || e[0].Expired() {
			t.Errorf("%s: the entries are %v", name, e)
		}
		r.tell("exit 0")
		r.ends(143)
		p.free("nightly")
	}
}

// As process 1, as in a container, doclock ends with the same codes, and waits
// only for those that live: nobody reaps the others.
func TestRunAsProcess1(t *testing.T) {
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespace of processes: %v: %s", err, out)
	}
	p := newPlace(t)
	for script, code := range map[string]int{
		"kill -INT $$": 130,
		`(sh -c "exit 3" &); kill -TERM $PPID; while :; do sleep 0.1; done`: 143,
	} {
		cmd := p.command("--pid", "--fork", "--mount-proc", os.Args[0], "run", "nightly", "--", "sh", "-c", script)
		cmd.Path = lookedUp(t, "unshare")
		p.startAs(cmd).ends(code)
		p.free("nightly")
	}
}
