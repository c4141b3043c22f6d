package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func itoa(n int) string { return strconv.Itoa(n) }

// broken breaks the one entry of a document.
func (p *place) broken(id any) {
	p.Helper()
	e := p.entries(id)
	if len(e) != 1 {
		p.Fatalf("the entries are %v", e)
	}
	if _, err := admin.Break(fixture.Bounded(p), p.coll, e[0]); err != nil {
		p.Fatal(err)
	}
}

// A lock that somebody broke ends the command, with a TERM first. What ignores the TERM is
// killed: the command, and the child of one that has ended in time. (On a busy machine they say only after a while that
// they got it.)
func TestRunLost(t *testing.T) {
	for name, how := range map[string][]string{"alone": nil, "stubborn, with a child": {"stubborn", "parent"}, "with a stubborn child": {"parent"}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			r := p.run([]string{"nightly", "--ttl", "8s", "--grace", "4s"}, how...)
			processes := 1
			if slices.Contains(how, "parent") {
				processes = 2
			}
			fixture.Eventually(t, "all have started", func() bool { return len(r.started()) == processes })
			p.broken("nightly")
			r.ends(exitLost)
			if r.out.count("got terminated") != processes || r.out.count("the lock was lost") != 1 {
				t.Error("it said something else")
			}
			p.free("nightly")
		})
	}
}

// A command that goes on for ever is ended, and the lock with it, after --at-most.
func TestRunAtMost(t *testing.T) {
	p := newPlace(t)
	begun := time.Now()
	r := p.run([]string{"nightly", "--at-most", "6s", "--grace", "3s"})
	r.ends(exitLost)
	if passed := time.Since(begun); passed < 2*time.Second {
		t.Errorf("it was ended after %v", passed)
	}
	if r.out.count("got terminated") != 1 || r.out.count("the time of --at-most is over") != 1 || r.out.count("after the 6s of --at-most") != 1 {
		t.Error("it said something else")
	}
	p.free("nightly")
	p.want(0, nil, "run", "nightly", "--at-most", "1h", "--", "true")
}

// The command ended well, but its lock was broken meanwhile.
func TestRunLostAtTheEnd(t *testing.T) {
	p := newPlace(t)
	r := p.run([]string{"nightly", "--ttl", "1m"}) // no renewal finds out
	p.broken("nightly")
	r.tell("exit 0")
	r.ends(exitLost)
}

// A server that is gone for longer than the lease: the command is ended before
// anybody else can be let in.
func TestRunServerGone(t *testing.T) {
	p := newPlace(t)
	way := p.proxied()
	r := p.run([]string{"nightly", "--ttl", "6s", "--grace", "3s"})
	way.net.Down(true)
	fixture.Eventually(t, "the command is ended", func() bool {
		e := p.entries("nightly") // before the look at the command, which may come late
		ended := gone(r.started()[0])
		if !ended && (len(e) != 1 || e[0].Remaining < time.Second) { // of the grace, and the tolerance
			t.Fatalf("the command lived when the entries were %v", e)
		}
		return ended
	})
	r.ends(exitLost)
	if r.out.count("got terminated") != 1 || r.out.count("can't be renewed") != 1 {
		t.Error("it said something else")
	}
}

// A server that comes back in time: nothing has happened.
func TestRunServerGoneAndBack(t *testing.T) {
	p := newPlace(t)
	way := p.proxied()
	r := p.run([]string{"nightly", "--ttl", "15s"})
	before := p.entries("nightly")
	way.net.Down(true)
	fixture.Eventually(t, "a connection is refused", func() bool { return way.refused.Load() > 0 })
	way.net.Down(false)
	fixture.Eventually(t, "the entry is renewed", func() bool {
		now := p.entries("nightly")
		return len(now) == 1 && now[0].ID == before[0].ID && now[0].Expires.After(before[0].Expires)
	})
	r.exits(3)
	if r.out.count("got ") > 0 {
		t.Error("the command got a signal")
	}
	p.free("nightly")
}

// A server that is gone when the command ends: nobody can say whether the lock
// was held until then.
func TestRunServerGoneAtTheEnd(t *testing.T) {
	p := newPlace(t)
	way := p.proxied()
	r := p.run([]string{"nightly", "--ttl", "12s", "-v"})
	way.net.Down(true)
	r.tell("exit 0")
	r.ends(exitUnknown)
	if r.out.count("can't be told") != 1 || r.out.count("the release waits for the server") != 1 {
		t.Error("it said something else")
	}
}

// A release that was not executed while the lease was valid: the lock was held until
// the command's end, so the code is the command's.
func TestReleaseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		ttl  time.Duration
		code int
	}{"in time": {time.Hour, 3}, "late": {time.Second, exitUnknown}} {
		mem := locktest.New()
		coll, err := mem.Collection("locks", bson.M{"_id": 1})
		if err != nil {
			t.Fatal(err)
		}
		locks, err := writelock.New(coll)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := locks.TryAcquire(t.Context(), doclock.ID(1), doclock.TTL(c.ttl))
		if err != nil {
			t.Fatal(err)
		}
		if c.code == exitUnknown {
			<-lease.Done()
		}
		mem.Fail(1, mongo.CommandError{Code: unauthorized}, locktest.Releases)
		var said strings.Builder
		err = (&cli{err: &said}).released(lease, target{text: "nightly"}, held{}, nil, end{code: 3}, nil, nil)
		var ended *ending
		if !errors.As(err, &ended) || ended.code != c.code {
			t.Errorf("%s: it ended with %v", name, err)
		}
		if told := strings.Contains(said.String(), "stands until it expires"); told != (c.code == 3) {
			t.Errorf("%s: it said %q", name, said.String())
		}
	}
}

// No server at all: the command is not run, and the error says what to check.
func TestRunWithoutAServer(t *testing.T) {
	p := newPlace(t)
	p.proxied().net.Down(true)
	p.want(exitNotRun, []string{"No server answered"}, "run", "nightly", "--wait", "1s", "--", "echo", "it ran")
	p.want(exitNotRun, []string{"no server has answered so far", "No server answered"}, "run", "nightly", "-v", "--wait", "6s", "--", "echo", "it ran")
	p.uri += "&serverSelectionTimeoutMS=200"
	p.want(exitFailed, []string{"No server answered"}, "ls")
}

// doclock was stopped for longer than the lease: others are let in, and the
// command is ended when doclock goes on.
func TestRunStoppedAndContinued(t *testing.T) {
	p := newPlace(t)
	r := p.run([]string{"nightly", "--ttl", "6s", "--grace", "3s"})
	r.signal(syscall.SIGSTOP)
	lease := p.hold("nightly", "the next", time.Minute) // waits for the end of the lease
	r.signal(syscall.SIGCONT)
	r.ends(exitLost)
	if r.out.count("got terminated") != 1 {
		t.Error("the command got no TERM")
	}
	if err := lease.Release(fixture.Bounded(t)); err != nil {
		t.Errorf("the next one's lock: %v", err)
	}
}

// The owner is the process to look for.
func TestRunOwner(t *testing.T) {
	p := newPlace(t)
	r := p.run([]string{"nightly"})
	e := p.entries("nightly")
	if len(e) != 1 || e[0].Owner != defaultOwnerOf(r) {
		t.Errorf("the entries are %v", e)
	}
	r.exits(0)
	if _, err := admin.Inspect(t.Context(), p.coll, doclock.ID("nightly")); err != nil {
		t.Errorf("the document of a named lock: %v", err)
	}
}

// Any file can be run.
func TestTheOwnerOfAnyCommand(t *testing.T) {
	for _, command := range []string{"w\xff", strings.Repeat("ä", 250)} {
		if owner := defaultOwner(command); !utf8.ValidString(owner) || len(owner) > 256 {
			t.Errorf("%q: the owner is %q", command, owner)
		}
	}
}

func defaultOwnerOf(r *running) string {
	host, err := os.Hostname()
	if err != nil {
		r.Fatal(err)
	}
	return host + "/" + itoa(r.cmd.Process.Pid) + "/" + filepath.Base(os.Args[0])
}
