package main

import (
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/fixture"
)

// A flag that is given as "" is refused, before anything is sent: it would mean
// more than the caller does.
func TestEmptyFlags(t *testing.T) {
	t.Parallel()
	p := &place{T: t, uri: "mongodb://127.0.0.1:1/"}
	for _, args := range [][]string{
		{"ls", "--collection", ""}, {"ls", "--tag", ""}, {"ls", "--uri", ""}, {"ls", "--uri-file", ""}, {"ls", "--shard-key", ""},
		{"break", "A-17", "--yes", "--id", ""}, {"break", "A-17", "--yes", "--owner", ""},
		{"sweep", "--within", ""}, {"break", "--owner", "web-3/4711/api", "--yes", "--within", ""},
	} {
		p.want(exitUsage, []string{args[len(args)-2] + " is empty"}, args...)
	}
	p.want(exitNotRun, []string{"--owner is empty"}, "run", "nightly", "--owner", "", "--", "echo", "it ran")
	p.want(exitNotRun, []string{"1 to", "not 0"}, "run", "nightly", "-n", "0", "--", "echo", "it ran")
	p.want(exitNotRun, []string{"TTL is -1s"}, "run", "nightly", "--ttl", "-1s", "--", "echo", "it ran")
	p.want(exitNotRun, []string{"HoldAtLeast is -1s"}, "run", "nightly", "--hold-at-least", "-1s", "--", "echo", "it ran")
	p.want(exitUsage, []string{"--timeout is 0s"}, "ls", "--timeout", "0")
}

// Extended JSON is read to its end.
func TestExtendedJSONWithMore(t *testing.T) {
	t.Parallel()
	p := &place{T: t, uri: "mongodb://127.0.0.1:1/"}
	for _, filter := range []string{`{"_id": 7}}`, `{"_id": 7} {"_id": 8}`, `{"_id": 7}, "x": {"a": 1}`, `{"$oid": "665f1f77bcf86cd799439011"}]`} {
		p.want(exitUsage, []string{"is not extended JSON"}, "inspect", filter)
		p.want(exitUsage, []string{"is not extended JSON"}, "sweep", "--within", filter)
	}
}

// With --json an error is JSON, also if the flags before it are wrong. What comes
// after "--" is not doclock's.
func TestErrorsAreJSON(t *testing.T) {
	t.Parallel()
	p := &place{T: t, uri: "mongodb://127.0.0.1:1/"}
	for _, args := range [][]string{{"ls", "--bogus", "--json"}, {"bogus", "--json"}, {"inspect", "--json"}, {"run", "--json", "x", "true"}} {
		_, stdout, stderr := p.do(args...)
		var said struct{ Error string }
		if err := json.Unmarshal([]byte(stderr), &said); err != nil || said.Error == "" || stdout != "" {
			t.Errorf("%q says %q and %q: %v", args, stdout, stderr, err)
		}
	}
	if _, _, stderr := p.do("run", "x", "--bogus", "--", "ls", "--json"); !strings.HasPrefix(stderr, "doclock: ") {
		t.Errorf("it says %q", stderr)
	}
}

// A TERM ends with the code of a TERM.
func TestSIGTERM(t *testing.T) {
	p := newPlace(t)
	silent := p.proxied().silentFrom("find")
	r := p.start("ls")
	fixture.Eventually(t, "ls waits for an answer", silent)
	r.signal(syscall.SIGTERM)
	r.ends(143)
}

// break asks only if its question can be seen.
func TestBreakWithoutAReader(t *testing.T) {
	p := newPlace(t)
	p.insert("A-17", stored{tag: "write", owner: "web-3/4711/api", fence: 10, expires: time.Hour})
	read, write := pipe(t)
	cmd := p.command("break", "A-17")
	cmd.Stderr = write
	p.startOnTerminal(cmd).ends(exitUsage)
	write.Close()
	said, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(said), "stderr is not a terminal") {
		t.Errorf("it said %q", said)
	}
	if len(p.entries("A-17")) != 1 {
		t.Error("the entry is gone")
	}
}

// An entry that can't be removed: the error says what to do.
func TestBreakOfADamagedEntry(t *testing.T) {
	p := newPlace(t)
	p.insert("A-17", stored{tag: "not a tag", owner: "another program", fence: 10, expires: time.Hour})
	p.want(exitFailed, []string{"another program than doclock has written it", "lock.tags"}, "break", "A-17", "--yes")
}
