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

// An INT that ends the command, or a doclock that waits, ends doclock by the signal: so
// a shell ends its loop, too. A command that ends with 130 by itself does not.
func TestInterruptsEndLoops(t *testing.T) {
	p := newPlace(t)
	holder := p.run([]string{"held"})
	for says, r := range map[string]*running{
		"ready":   p.start("run", "nightly", "--", "sh", "-c", "echo ready; exec sleep 60"),
		"waiting": p.start("run", "held", "-v", "--", "true"),
	} {
		r.says(says)
		r.signal(syscall.SIGINT)
		r.ends(130)
		if !r.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Errorf("%s: it was not ended by the signal", says)
		}
	}
	r := p.start("run", "nightly", "--", "sh", "-c", "exit 130")
	r.ends(130)
	if r.cmd.ProcessState.ExitCode() != 130 {
		t.Error("the command's own 130 became a signal")
	}
	holder.exits(0)
	p.free("nightly")
}

// A command at a terminal has an empty stdin, and can't stop itself by a read.
func TestRunAtATerminal(t *testing.T) {
	p := newPlace(t)
	r := p.startOnTerminal(p.command("run", "nightly", "--", "sh", "-c", "cat; read -r x < /dev/tty || echo refused"))
	r.says("refused")
	r.ends(0)
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
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // doclock has seen it, or there is nothing to see
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
	r := p.start("run", "nightly", "--", "sh", "-c", script, os.Args[0])
	fixture.Eventually(t, "both have started", func() bool { return len(r.started()) == 2 })
	r.signal(syscall.SIGTERM)
	r.says("got terminated")
	fixture.Eventually(t, "the shell has ended", func() bool { return gone(r.started()[0]) })
	if e := p.entries("nightly"); len(e) != 1 || e[0].Expired() {
		t.Errorf("the entries are %v", e)
	}
	r.tell("exit 0")
	r.ends(143)
	p.free("nightly")
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
