//go:build unix

package mongotest

import (
	"context"
	"errors"
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

// userEnv makes this test binary a user, which prints its greeting, and stays until
// its standard input ends. Its value is the cache of the shared server, which then
// has a short linger; without a value it is the owner of a private server.
const userEnv = "DOCLOCK_MONGOTEST_USER"

const shortLinger = 100 * time.Millisecond

func TestUserProcess(t *testing.T) {
	dir, isUser := os.LookupEnv(userEnv)
	if !isUser {
		return // it is used by the tests below
	}
	hello := greeting{PID: os.Getpid()}
	if dir == "" {
		hello.URI = Private(t).URI()
	} else {
		server, err := attach(t.Context(), cache{dir: dir}, shortLinger, newProgress(os.Stderr))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Close() }()
		hello = greeting{URI: server.URI(), PID: server.keeper}
	}
	greet(os.Stdout, hello)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A user is another process that uses a server.
type user struct {
	greeting
	cmd   *exec.Cmd
	stdin io.Closer
}

func startUser(t *testing.T, env ...string) (*user, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUserProcess$")
	cmd.Env = append(os.Environ(), env...)
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
	hello, err := understand(stdout)
	return &user{greeting: hello, cmd: cmd, stdin: stdin}, err
}

func (u *user) leave() { _, _ = u.stdin.Close(), u.cmd.Wait() }
func (u *user) kill()  { _, _ = u.cmd.Process.Kill(), u.cmd.Wait() }

// startUsers starts users of one cache, whose server is the stand-in for a mongod,
// which starts at once: for what is about the supervisor, not the server.
func startUsers(t *testing.T, c cache, n int) []*user {
	t.Helper()
	users, errs := make([]*user, n), make([]error, n)
	path := "PATH=" + standIns(t) + ":" + os.Getenv("PATH")
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { users[i], errs[i] = startUser(t, userEnv+"="+c.dir, path, imageEnv+"=") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return users
}

func TestProcessesShareOneServer(t *testing.T) {
	t.Parallel()
	c := cache{dir: t.TempDir()}
	users := startUsers(t, c, 4)
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
	t.Setenv(imageEnv, "")
	t.Setenv("PATH", standIns(t)+":"+os.Getenv("PATH"))
	c := cache{dir: t.TempDir()}
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
	t.Parallel()
	c := cache{dir: t.TempDir()}
	victim := startUsers(t, c, 1)[0]
	family := descendants(victim.PID)
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's end", func() bool { return silent(t, victim.URI) })
	eventually(t, "the end of its processes", func() bool { return len(alive(family)) == 0 })

	// The next one removes the data, even while a user of the first still
	// lives.
	next := startUsers(t, c, 1)[0]
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
	t.Parallel()
	owner, err := startUser(t, userEnv+"=", "MONGODB_URI=mongodb://127.0.0.1:1/") // which is not its server
	if err != nil {
		t.Fatal(err)
	}
	if !answers(t, owner.URI) {
		t.Error("it does not answer")
	}
	family := descendants(owner.PID)
	owner.kill()
	eventually(t, "the server's end", func() bool { return silent(t, owner.URI) })
	eventually(t, "the end of its processes", func() bool { return len(alive(family)) == 0 })
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the removal of its data", func() bool { // another process may be about to remove it
		left := runsOf(t, c, owner.PID)
		for _, dir := range left {
			sweep(filepath.Dir(dir))
		}
		return len(left) == 0
	})
}

// A server that does not start fails its users, with its output.
func TestBrokenServerSaysWhy(t *testing.T) {
	bin := t.TempDir()
	script(t, filepath.Join(bin, "mongod"), "echo this mongod is broken; exit 3")
	t.Setenv(imageEnv, "")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err := attach(t.Context(), cache{dir: t.TempDir()}, shortLinger, newProgress(nil))
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
