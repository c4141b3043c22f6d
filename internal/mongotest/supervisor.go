//go:build unix

package mongotest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// superviseEnv, in the environment, makes a program that imports this package a
// supervisor. Its value is a charge.
const superviseEnv = "DOCLOCK_MONGOTEST_SUPERVISE"

// A charge is a supervisor's task.
type charge struct {
	Cache  string        // the cache's directory
	Way    string        // the way to start the server
	Linger time.Duration // how long to keep the server after its last user
}

// A greeting is a supervisor's message, one line of JSON, to every process that
// connects.
type greeting struct {
	URI         string `json:",omitempty"`
	Description string `json:",omitempty"`
	PID         int    `json:",omitempty"`
	Error       string `json:",omitempty"`
}

// listenerFD is the descriptor of the socket that a supervisor inherits. The
// process that starts the supervisor binds it, under the cache's lock. So there
// is never a second supervisor, and no process waits for a socket to appear.
const listenerFD = 3

// Any program that uses this package can become the supervisor, because no
// other program is certain to be present: tests may be compiled here and run
// elsewhere. The program's own main, and its tests, don't run then.
func init() {
	text, ok := os.LookupEnv(superviseEnv)
	if !ok {
		return
	}
	if err := supervise(text); err != nil {
		fmt.Fprintln(os.Stderr, err) // the supervisor's log
		os.Exit(1)
	}
	os.Exit(0)
}

// spawn starts a supervisor that listens on the cache's socket. The caller
// holds the cache's lock, and knows that no process listens there.
func spawn(c cache, w way, linger time.Duration) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the supervisor's program: %w", err)
	}
	if err := os.Remove(c.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a dead supervisor's socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.socket(), Net: "unix"})
	if err != nil {
		return fmt.Errorf("listening for the supervisor: %w", err)
	}
	listener.SetUnlinkOnClose(false) // the socket is the supervisor's
	defer func() { _ = listener.Close() }()
	socket, err := listener.File()
	if err != nil {
		return fmt.Errorf("listening for the supervisor: %w", err)
	}
	defer func() { _ = socket.Close() }()
	text, err := json.Marshal(charge{Cache: c.dir, Way: w.name, Linger: linger})
	if err != nil {
		return fmt.Errorf("charging the supervisor: %w", err)
	}
	// Not our own output: `go test` would wait for the supervisor to close it.
	log, err := os.Create(c.path("supervisor.log"))
	if err != nil {
		return fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(program)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), superviseEnv+"="+string(text))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is for its users only
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	return cmd.Process.Release()
}

// supervise runs a supervisor.
func supervise(text string) error {
	syscall.CloseOnExec(listenerFD)
	if err := os.Unsetenv(superviseEnv); err != nil {
		return fmt.Errorf("clearing the environment: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	file := os.NewFile(listenerFD, "the supervisor's socket")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("inheriting the socket: %w", err)
	}
	_ = file.Close() // listener has a copy
	defer func() { _ = listener.Close() }()

	var job charge
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return fmt.Errorf("understanding the charge %q: %w", text, err)
	}
	srv, hello, err := startServer(ctx, job)
	if err != nil {
		// The process that started us waits for the answer; later ones start
		// their own supervisor.
		refuse(listener, greeting{Error: err.Error()})
		return err
	}
	s := &supervisor{charge: job, listener: listener, hello: hello, server: srv, users: make(chan int)}
	return errors.Join(s.serve(ctx), srv.remove())
}

func startServer(ctx context.Context, job charge) (server, greeting, error) {
	w, err := wayByName(job.Way)
	if err != nil {
		return nil, greeting{}, err
	}
	srv, err := w.start(ctx, cache{dir: job.Cache})
	if err != nil {
		return nil, greeting{}, fmt.Errorf("starting a server by way of %s: %w", job.Way, err)
	}
	what, err := probe(ctx, srv.uri(), startLimit)
	if err != nil {
		return nil, greeting{}, errors.Join(err, srv.remove())
	}
	return srv, greeting{URI: srv.uri(), Description: what + "; " + srv.origin(), PID: os.Getpid()}, nil
}

// refuse answers one connection.
func refuse(listener net.Listener, g greeting) {
	if l, ok := listener.(*net.UnixListener); ok {
		_ = l.SetDeadline(time.Now().Add(5 * time.Second))
	}
	if conn, err := listener.Accept(); err == nil {
		greet(conn, g)
		_ = conn.Close()
	}
}

// greet fails only for users that have ended, and their connection shows that.
func greet(conn io.Writer, g greeting) { _ = json.NewEncoder(conn).Encode(g) }

type supervisor struct {
	charge
	listener net.Listener
	hello    greeting
	server   server
	users    chan int // +1 for every user that comes, -1 for every one that leaves
}

// serve lasts until the last user has left for good, the server ends by itself,
// or ctx does.
func (s *supervisor) serve(ctx context.Context) error {
	accepted := make(chan error, 1)
	go func() { accepted <- s.accept(ctx) }()

	users := 0
	idle := time.NewTimer(s.Linger)
	defer idle.Stop()
	health := time.NewTicker(500 * time.Millisecond)
	defer health.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-accepted:
			return err
		case change := <-s.users:
			users += change
			idle.Reset(s.Linger)
		case <-health.C:
			if s.server.ended() {
				return errors.New("the server ended by itself")
			}
		case <-idle.C:
			if users > 0 {
				continue
			}
			if s.retire() {
				return nil
			}
			idle.Reset(time.Second)
		}
	}
}

// retire closes the socket, unless a process may be about to connect. Users
// connect, and are counted, while they hold the cache's lock. So a process that
// has the lock while there are no users may close the socket.
func (s *supervisor) retire() bool {
	lock, err := tryLock(cache{dir: s.Cache}.path("lock"))
	if err != nil {
		return false
	}
	defer lock.close()
	_ = s.listener.Close()
	return true
}

func (s *supervisor) accept(ctx context.Context) error {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return fmt.Errorf("accepting users: %w", err)
		}
		go s.attend(ctx, conn)
	}
}

// attend counts a user from before the greeting until the connection ends.
func (s *supervisor) attend(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if !s.count(ctx, +1) {
		return
	}
	greet(conn, s.hello)
	_, _ = io.Copy(io.Discard, conn) // users send nothing; this lasts as long as they do
	s.count(ctx, -1)
}

func (s *supervisor) count(ctx context.Context, change int) bool {
	select {
	case s.users <- change:
		return true
	case <-ctx.Done():
		return false
	}
}

// understand reads a supervisor's greeting.
func understand(conn io.Reader) (greeting, error) {
	var g greeting
	if err := json.NewDecoder(conn).Decode(&g); err != nil {
		return greeting{}, fmt.Errorf("the supervisor says nothing: %w", err)
	}
	if g.Error != "" {
		return greeting{}, errors.New(strings.TrimSpace(g.Error))
	}
	return g, nil
}
