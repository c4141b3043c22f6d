//go:build unix

package mongotest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ownCache is a cache without a server, but with the downloads and builds of
// the real one.
func ownCache(t *testing.T) cache {
	t.Helper()
	realOne, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	say := newProgress(os.Stderr)
	lock, err := realOne.lock(t.Context(), say)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.close()
	if _, err := find(t.Context(), realOne, say); err != nil {
		t.Fatal(err)
	}
	own := emptyCache(t)
	if _, err := os.Stat(realOne.path("debian")); err == nil {
		if err := os.Symlink(realOne.path("debian"), own.path("debian")); err != nil {
			t.Fatal(err)
		}
	}
	return own
}

func emptyCache(t *testing.T) cache {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("MONGODB_URI", "")
	own, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// standInCache is a cache whose server is the stand-in for a mongod, which starts
// at once: for what is about the supervisor, not the server.
func standInCache(t *testing.T) cache {
	t.Helper()
	t.Setenv(imageEnv, "")
	standInOnPath(t)
	return emptyCache(t)
}

// userEnv makes this test binary a user: it connects to the shared server, with
// a short linger, prints its greeting, and stays until its standard input ends.
const userEnv = "DOCLOCK_MONGOTEST_USER"

const shortLinger = 500 * time.Millisecond

func TestUserProcess(t *testing.T) {
	if os.Getenv(userEnv) == "" {
		return // it is used by the tests below
	}
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	server, err := attach(t.Context(), c, shortLinger, newProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(greeting{URI: server.URI(), PID: server.keeper}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// A user is another process that uses the shared server.
type user struct {
	greeting
	cmd   *exec.Cmd
	stdin io.Closer
}

func startUser(t *testing.T) (*user, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUserProcess$")
	cmd.Env = append(os.Environ(), userEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	u := &user{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(line), &u.greeting); err != nil {
		return nil, fmt.Errorf("%w: %s", err, line)
	}
	return u, nil
}

func (u *user) leave() { _, _ = u.stdin.Close(), u.cmd.Wait() }
func (u *user) kill()  { _, _ = u.cmd.Process.Kill(), u.cmd.Wait() }

func startUsers(t *testing.T, n int) []*user {
	t.Helper()
	users, errs := make([]*user, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { users[i], errs[i] = startUser(t) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return users
}

func TestProcessesShareOneServer(t *testing.T) {
	c := standInCache(t)
	users := startUsers(t, 4)
	first := users[0].greeting
	for _, u := range users[1:] {
		if u.greeting != first {
			t.Errorf("two servers: %+v and %+v", first, u.greeting)
		}
	}

	// The process that started the server ends, in one way or another, and the
	// server stays for the others.
	for _, u := range users[:3] {
		u.kill()
	}
	time.Sleep(3 * shortLinger)
	if !answers(t, first.URI) {
		t.Error("the server has ended before its last user")
	}
	users[3].leave()
	eventually(t, "the server's end", func() bool { return silent(t, first.URI) })
	eventually(t, "the removal of its data", func() bool { return len(runsOf(t, c, first.PID)) == 0 })
}

// Users that come when a supervisor is about to end get a server that stays.
func TestComingAndGoing(t *testing.T) {
	c := standInCache(t)
	var last *Shared
	for range 4 {
		server, err := attach(t.Context(), c, time.Millisecond, newProgress(nil))
		if err != nil {
			t.Fatal(err)
		}
		if last == nil || last.keeper != server.keeper {
			time.Sleep(2 * time.Millisecond) // longer than the linger: the server must stay because it is used
		}
		if !answers(t, server.URI()) {
			t.Error("a server that is held does not answer")
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		last = server
		time.Sleep(time.Millisecond)
	}
	eventually(t, "the server's end", func() bool { return silent(t, last.URI()) })
	eventually(t, "the removal of its data", func() bool { return len(runsOf(t, c, last.keeper)) == 0 })
}

func TestKilledSupervisorLeavesNothing(t *testing.T) {
	c := standInCache(t)
	victim := startUsers(t, 1)[0]
	family := descendants(victim.PID)
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's end", func() bool { return silent(t, victim.URI) })
	eventually(t, "the end of its processes", func() bool { return len(alive(family)) == 0 })

	// The next one removes the data, even while a user of the first still
	// lives.
	next := startUsers(t, 1)[0]
	if next.PID == victim.PID || !answers(t, next.URI) {
		t.Errorf("no new server: %+v", next.greeting)
	}
	if left := runsOf(t, c, victim.PID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	victim.leave()
	next.leave()
	eventually(t, "the second server's end", func() bool { return silent(t, next.URI) })
}

func TestKilledOwnerOfAPrivateServerLeavesNothing(t *testing.T) {
	if os.Getenv(userEnv) != "" {
		server := Private(t)
		if err := json.NewEncoder(os.Stdout).Encode(greeting{URI: server.URI()}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	c := ownCache(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), userEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	owner, err := understand(stdout)
	if err != nil {
		t.Fatal(err)
	}
	family := descendants(cmd.Process.Pid)
	_, _ = cmd.Process.Kill(), cmd.Wait()
	eventually(t, "the server's end", func() bool { return silent(t, owner.URI) })
	eventually(t, "the end of its processes", func() bool { return len(alive(family)) == 0 })
	for _, dir := range runsOf(t, c, cmd.Process.Pid) {
		sweep(filepath.Dir(dir))
	}
	if left := runsOf(t, c, cmd.Process.Pid); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A server that does not start fails its users, with its output.
func TestBrokenServerSaysWhy(t *testing.T) {
	c := ownCache(t)
	broken := filepath.Join(t.TempDir(), "mongod")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho this mongod is broken\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(broken)+":"+os.Getenv("PATH"))
	_, err := attach(t.Context(), c, shortLinger, newProgress(nil))
	if err == nil || !strings.Contains(err.Error(), "this mongod is broken") {
		t.Errorf("the error is: %v", err)
	}
}

func runsOf(t *testing.T, c cache, pid int) []string {
	t.Helper()
	var all []string
	for _, base := range []string{c.path("runs"), c.path("debian" + "/srv/runs")} {
		dirs, err := filepath.Glob(filepath.Join(base, fmt.Sprintf("%d-*", pid)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dirs...)
	}
	return all
}

// answers waits for the answer for as long as a busy machine may need.
func answers(t *testing.T, uri string) bool {
	_, err := probe(context.WithoutCancel(t.Context()), uri, 10*time.Second)
	return err == nil
}

// silent waits for a shorter time to see that there is none.
func silent(t *testing.T, uri string) bool {
	_, err := probe(context.WithoutCancel(t.Context()), uri, 200*time.Millisecond)
	return err != nil
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("still waiting for %s", what)
		}
	}
}
