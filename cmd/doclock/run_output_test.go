package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/fixture"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Nobody reads stderr any more when the lock is lost: the command ends all the
// same, and its group.
func TestRunLostWithABrokenPipe(t *testing.T) {
	p := newPlace(t)
	cmd := p.command(runArguments([]string{"nightly", "--ttl", "6s", "--json"}, []string{"stubborn", "parent"})...)
	read, write := pipe(t)
	cmd.Stderr = write
	r := p.startAs(cmd)
	write.Close()
	fixture.Eventually(t, "both have started", func() bool { return len(r.started()) == 2 })
	read.Close()
	p.broken("nightly")
	r.ends(exitLost)
}

// The reader of stderr doesn't go on when the lock is lost: the command is ended
// in time.
func TestRunLostWithAFullPipe(t *testing.T) {
	p := newPlace(t)
	read, write := pipe(t)
	if err := write.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := write.Write(make([]byte, 1<<22)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe isn't full: %v", err)
	}
	cmd := p.command(runArguments([]string{"nightly", "--ttl", "6s"}, []string{"stubborn"})...)
	cmd.Stderr = write
	r := p.startAs(cmd)
	write.Close()
	r.says("started")
	p.broken("nightly")
	fixture.Eventually(t, "the command is killed", func() bool { return gone(r.started()[0]) })
	read.Close()
	r.ends(exitLost)
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// A run in a run speaks of its own lock alone, and of a name that no environment
// can hold in JSON alone.
func TestRunInARun(t *testing.T) {
	p := newPlace(t)
	for _, id := range []any{7, "a\x00b"} {
		if _, err := p.coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, inner := range []string{`{"_id":7}`, `{"_id":"a\u0000b"}`} {
		out := p.want(0, nil, "run", "outer", "--", os.Args[0], "run", inner, "--", "sh", "-c", `env | grep ^DOCLOCK_`)
		if strings.Contains(out, "outer") || strings.Contains(out, "DOCLOCK_NAME") || strings.Count(out, "DOCLOCK_DOCUMENT") != 1 {
			t.Errorf("in the run of %s:\n%s", inner, out)
		}
	}
}

// A script without a first line that names its interpreter runs as in a shell.
func TestRunAScriptWithoutAnInterpreter(t *testing.T) {
	p := newPlace(t)
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte(`echo "it has $1"; exit 4`), 0o700); err != nil {
		t.Fatal(err)
	}
	p.want(4, []string{"it has one"}, "run", "nightly", "--", script, "one")
}
