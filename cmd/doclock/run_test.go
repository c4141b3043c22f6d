package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// run ends with the command's exit code, whatever it is, and leaves no entry.
func TestRunPassesTheExitCodeOn(t *testing.T) {
	p := newPlace(t)
	for script, code := range map[string]int{"true": 0, "exit 1": 1, "exit 2": 2, "exit 3": 3, "exit 124": 124, "kill -9 $$": 137, "kill -TERM $$": 143} {
		p.want(code, nil, "run", "nightly", "--", "sh", "-c", script)
		p.free("nightly")
	}
}

// The command knows what it needs for fencing.
func TestRunTellsTheCommand(t *testing.T) {
	p := newPlace(t)
	var last string
	for range 2 {
		out := p.want(0, nil, "run", "nightly", "--", "sh", "-c", `echo "$DOCLOCK_FENCE|$DOCLOCK_NAME|$DOCLOCK_DOCUMENT|$DOCLOCK_COLLECTION|$DOCLOCK_TAG|$DOCLOCK_LEASE|$DOCLOCK_GUARD"`)
		part := strings.SplitN(strings.TrimSpace(out), "|", 7)
		if part[0] <= last || part[1] != "nightly" || part[2] != `"nightly"` || part[3] != p.coll.Database().Name()+".locks" || part[4] != "write" || len(part[5]) != 36 {
			t.Errorf("after fence %s the command got %q", last, part)
		}
		last = part[0]
	}
}

// The guard, in the command's environment, matches the document while the lock
// is held, and not after that.
func TestRunGuard(t *testing.T) {
	p := newPlace(t)
	if _, err := p.coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 7}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "guard")
	r := p.start("run", `{"_id": 7}`, "--", "sh", "-c", `echo "$DOCLOCK_GUARD" > `+file+`; exec "$0" `+childArgument, os.Args[0])
	r.says("started")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var guard bson.D
	if err := bson.UnmarshalExtJSON(text, true, &guard); err != nil {
		t.Fatal(err)
	}
	matches := func() int64 {
		n, err := p.coll.CountDocuments(t.Context(), guard)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if matches() != 1 {
		t.Errorf("the guard doesn't match: %s", text)
	}
	r.exits(0)
	if matches() != 0 {
		t.Error("the guard matches after the release")
	}
}

// A command that can't be run takes no lock.
func TestRunWithoutACommand(t *testing.T) {
	p := newPlace(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.want(exitNoCommand, []string{"no such command"}, "run", "nightly", "--", "no-such-command")
	p.want(exitNotExecutable, []string{"can't be executed"}, "run", "nightly", "--", script)
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	p.want(exitNotExecutable, []string{"is a directory"}, "run", "nightly", "--", t.TempDir())
	for _, args := range [][]string{{"nightly"}, {"nightly", "true"}, {"--", "true"}, {"nightly", "x", "--", "true"}, {"nightly", "--"}} {
		p.want(exitNotRun, []string{"doclock run nightly -- ./backup.sh"}, append([]string{"run"}, args...)...)
	}
	if n, err := p.coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d documents were made: %v", n, err)
	}
	p.want(exitNotExecutable, []string{"can't be executed"}, "run", "nightly", "--", script) // known only when it is started
	p.free("nightly")
}

// A wrong NAME leaves no document in a collection of other documents. In that of
// named locks, and with --create, the document is made.
func TestRunMakesDocumentsOfNamedLocksOnly(t *testing.T) {
	p := newPlace(t)
	if _, err := p.coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "A-17"}}); err != nil {
		t.Fatal(err)
	}
	p.want(exitNotRun, []string{"A-71: no such document, and none was made", p.coll.Name(), "--create"}, "run", "A-71", "--create=false", "--", "echo", "it ran")
	p.want(exitNotRun, []string{"none was made"}, "run", "A-71", "-n", "2", "--create=false", "--", "echo", "it ran")
	p.want(0, nil, "run", "A-17", "--create=false", "--", "true")
	p.want(exitNotRun, []string{"--create needs a NAME"}, "run", `{"_id": "A-71"}`, "--create", "--", "echo", "it ran")
	if n, err := p.coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("there are %d documents: %v", n, err)
	}
	p.want(0, nil, "run", "A-71", "--create", "--", "true")
	if n, err := p.coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 2 {
		t.Errorf("there are %d documents: %v", n, err)
	}

	named, locks := uuid.NewString(), p.coll.Database().Client().Database("doclock").Collection("locks")
	cmd := p.command("run", named, "--create=false", "--", "true")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "DOCLOCK_COLLECTION=") })
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in doclock.locks: %v, %s", err, out)
	}
	if r, err := locks.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: named}}); err != nil || r.DeletedCount != 1 {
		t.Errorf("in doclock.locks it has made %+v documents: %v", r, err)
	}
}

// Bad flags are refused before anything is sent.
func TestRunRefusesBadFlags(t *testing.T) {
	p := newPlace(t)
	for text, flags := range map[string][]string{
		"--wait is -1s":               {"nightly", "--wait", "-1s"},
		"TTL is 1ms":                  {"nightly", "--ttl", "1ms"},
		"at most half of the TTL":     {"nightly", "--grace", "6s"},
		"needs a FILTER":              {"nightly", "--skip"},
		"--sort needs a FILTER":       {"nightly", "--sort", `{"a": 1}`},
		"is not extended JSON":        {`{_id: 7}`},
		"is empty":                    {`{}`},
		"the NAME is empty":           {``},
		"1 to":                        {"nightly", "-n", "-1"},
		"unknown flag":                {"nightly", "--fast"},
		"no file, and no preset":      {"nightly", "--rules", "unfair", "--tag", "x"},
		`unknown tag "x"`:             {"nightly", "--rules", "fair", "--tag", "x"},
		"give DB.COLLECTION":          {"nightly", "-c", "shop"},
		"[holders skip] were all set": {`{"a": 1}`, "-n", "2", "--skip"},
		"HoldAtLeast is":              {"nightly", "--hold-at-least", "100000h"},
		"HoldAtMost is":               {"nightly", "--at-most", "0"},
		"at most half of --at-most":   {"nightly", "--at-most", "4s", "--grace", "3s"},
		"Owner is":                    {"nightly", "--owner", strings.Repeat("x", 300)},
		"--sort is not extended JSON": {`{"a": 1}`, "--sort", "a"},
	} {
		p.want(exitNotRun, []string{text}, append(append([]string{"run"}, flags...), "--", "echo", "it ran")...)
	}
	if n, err := p.coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d documents were made: %v", n, err)
	}
}

// A refused run says who holds the lock. A waiting run gets it when it is free.
func TestRunConflictAndWait(t *testing.T) {
	p := newPlace(t)
	lease := p.hold("nightly", "web-3/1/api", time.Minute)
	p.want(exitConflict, []string{"web-3/1/api", "--wait"}, "run", "nightly", "--wait", "0", "--", "echo", "it ran")
	p.want(exitConflict, []string{"web-3/1/api"}, "run", "nightly", "--wait", "3s", "--", "echo", "it ran")
	_, _, stderr := p.do("run", "nightly", "--wait", "0", "--json", "--", "true")
	var said struct {
		Error, Hint string
		Exit        int
	}
	if err := json.Unmarshal([]byte(stderr), &said); err != nil || said.Exit != exitConflict || said.Hint == "" || !strings.Contains(said.Error, "web-3/1/api") {
		t.Errorf("as JSON: %q, %v", stderr, err)
	}

	r := p.start(runArguments([]string{"nightly", "-v", "--owner", "the next"}, nil)...)
	r.says("waiting")
	if err := lease.Release(fixture.Bounded(t)); err != nil {
		t.Fatal(err)
	}
	r.says("started")
	if e := p.entries("nightly"); len(e) != 1 || e[0].Owner != "the next" {
		t.Errorf("the entries are %v", e)
	}
	r.exits(0)
	p.free("nightly")
}

// A semaphore lets in as many as it says, and the next one in its turn.
func TestRunSemaphore(t *testing.T) {
	p := newPlace(t)
	flags := []string{"uploads", "-n", "2"}
	first, second := p.run(flags), p.run(flags)
	third := p.start(runArguments(flags, nil)...)
	fixture.Eventually(t, "the third waits in the document", func() bool {
		e := p.entries("uploads")
		return len(e) == 3 && e[2].State == admin.Waiting
	})
	first.exits(0)
	third.says("started")
	second.tell("exit 0")
	third.tell("exit 5")
	second.ends(0)
	third.ends(5)
	p.free("uploads")
}

// --skip takes a document that is free, the first by the keys, and 124 says that
// there is none.
func TestRunSkip(t *testing.T) {
	p := newPlace(t)
	for i := range 3 {
		if _, err := p.coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "state", Value: "new"}}); err != nil {
			t.Fatal(err)
		}
	}
	claim := []string{"run", `{"state": "new"}`, "--skip", "--sort", `{"_id": -1}`, "--wait", "0", "--"}
	lease := p.hold(2, "a worker", time.Minute)
	if out := p.want(0, nil, append(claim, "sh", "-c", "echo $DOCLOCK_DOCUMENT")...); strings.TrimSpace(out) != "1" {
		t.Errorf("it claimed %s", out)
	}
	p.want(exitConflict, []string{"a worker", "with --wait"}, "run", `{"_id": 2, "state": "new"}`, "--skip", "--wait", "0", "--", "echo", "it ran")
	p.want(exitConflict, []string{"no document matches and is free"}, "run", `{"state": "old"}`, "--skip", "--wait", "0", "--", "echo", "it ran")
	p.want(exitConflict, []string{"no document matches and is free"}, "run", `{"state": "old"}`, "--skip", "--wait", "0", "--", "echo", "it ran")
	p.want(exitNotRun, []string{p.coll.Name() + `: {"_id": 9}: no such document` + "\n", "an ObjectID"}, "run", `{"_id": 9}`, "--", "echo", "it ran")
	if err := lease.Release(fixture.Bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// A short command keeps others out for as long as --hold-at-least says.
func TestRunHoldAtLeast(t *testing.T) {
	p := newPlace(t)
	p.want(0, nil, "run", "tick", "--wait", "0", "--hold-at-least", "1h", "--", "true")
	p.want(exitConflict, nil, "run", "tick", "--wait", "0", "--hold-at-least", "1h", "--", "echo", "it ran")
	if e := p.entries("tick"); len(e) != 1 || e[0].State != admin.Remainder {
		t.Errorf("the entries are %v", e)
	}
}

// With the rules of the programs that lock here, run is one of them.
func TestRunByRules(t *testing.T) {
	p := newPlace(t)
	if _, err := p.coll.InsertOne(t.Context(), doclock.ID("friends")); err != nil {
		t.Fatal(err)
	}
	reader := p.run([]string{"friends", "--rules", "write-preferring", "--tag", "read"})
	p.want(0, nil, "run", "friends", "--rules", "write-preferring", "--tag", "read", "--", "true")
	p.want(exitConflict, nil, "run", "friends", "--wait", "0", "--", "echo", "it ran") // a tag that it doesn't know is in the way
	reader.exits(0)
}

// With --json, run tells each step on stderr, one object for each line.
func TestRunJSON(t *testing.T) {
	p := newPlace(t)
	_, stdout, stderr := p.do("run", "nightly", "--json", "--", "echo", "it ran")
	var events []string
	for line := range strings.Lines(stderr) {
		var said struct{ Event, Message string }
		if err := json.Unmarshal([]byte(line), &said); err != nil || said.Message == "" {
			t.Errorf("%q: %v", line, err)
		}
		events = append(events, said.Event)
	}
	if !slices.Equal(events, []string{"acquired", "released"}) || stdout != "it ran\n" {
		t.Errorf("the events are %q, the output %q", events, stdout)
	}
}
