package main

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
)

// silentFrom has the server answer nothing any more, from this command on. silent
// reports whether that has come.
func (x *proxy) silentFrom(first string) (silent func() bool) {
	var now atomic.Bool
	x.net.Block(func(command string, _ []byte) bool {
		if command == first {
			now.Store(true)
		}
		return now.Load()
	})
	return now.Load
}

// A server that accepts commands and doesn't answer: each subcommand ends soon,
// and says so. It says too that a removal may have been done.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first string
		says  []string
		args  []string
	}{
		{"find", []string{"has not answered for 5s", "longer --timeout"}, []string{"ls"}},
		{"find", []string{"has not answered for 5s"}, []string{"inspect", "A-17", "--json"}},
		{"find", []string{"has not answered for 5s"}, []string{"break", "--owner", "web-3/4711/api", "--yes"}},
		{"findAndModify", []string{"has not answered for 5s", "outcome unknown", "doclock inspect"}, []string{"break", "A-17", "--yes"}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			p := newPlace(t)
			p.insert("A-17", stored{tag: "write", owner: "web-3/4711/api", fence: 10, expires: time.Hour})
			p.proxied().silentFrom(c.first)
			p.want(exitFailed, c.says, append(c.args, "--timeout", "5s")...)
		})
	}
	t.Run("run", func(t *testing.T) {
		p := newPlace(t)
		p.proxied().silentFrom("findAndModify")
		begun := time.Now()
		p.want(exitNotRun, []string{"not acquired"}, "run", "A-17", "--timeout", "1s", "--", "echo", "it ran")
		if took := time.Since(begun); took > 20*time.Second { // without the flag it tries for 30 s
			t.Errorf("it took %v", took)
		}
	})
	t.Run("watch", func(t *testing.T) {
		p := newPlace(t)
		way := p.proxied()
		p.insert("A-17", stored{tag: "write", owner: "web-3/4711/api", fence: 10, expires: time.Hour})
		r := p.start("watch", "--timeout", "1s", "--every", "100ms")
		r.says("A-17")
		way.silentFrom("find")
		r.says("has not answered for 1s")
		way.net.Block(nil)
		seen := r.out.count("A-17")
		fixture.Eventually(r, "it goes on", func() bool { return r.out.count("A-17") > seen })
	})
}

// A command that takes longer than --timeout isn't cut while the server answers
// others.
func TestSlowAnswer(t *testing.T) {
	p := newPlace(t)
	p.insert("A-17", stored{tag: "write", owner: "web-3/4711/api", fence: 10, expires: time.Hour})
	way := p.proxied()
	slow := way.net.Arm(faultnet.DelayReply, "find")
	p.uri += "&maxPoolSize=1"
	r := p.start("ls", "--timeout", "10s")
	<-slow.Fired()
	time.Sleep(12 * time.Second) //nolint:forbidigo // longer than the program's own timeout, in a process
	if err := slow.Let(); err != nil {
		t.Error(err)
	}
	r.ends(0)
	if r.out.count("A-17") != 1 {
		t.Error("the entry isn't listed")
	}
}
