//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	label = "doclock.mongotest"

	// leash is the container's program: a mongod that ends when our end of its
	// standard input is closed, so that a kill -9 of its owner ends it too.
	leash = `exec 3<&0; (cat <&3 >/dev/null; kill -TERM $$) & exec mongod "$@" </dev/null`
)

// A container is a mongod in Docker or Podman, as a replica set of one member.
// It was written without access to an engine, and was tested only with a
// stand-in (standin_test.go), except that a client without an engine is
// skipped.
type container struct {
	engine string
	image  string
	port   int
	run    *run
	client crew      // the engine's client, which ends when the container does
	stdin  io.Closer // the leash
}

func containerWay(engine, image string) way {
	return way{
		name: engine,
		prepare: func(ctx context.Context, _ cache, say *progress) error {
			return prepareContainer(ctx, engine, image, say)
		},
		start: func(ctx context.Context, c cache) (server, error) { return startContainer(ctx, engine, image, c) },
	}
}

func prepareContainer(ctx context.Context, engine, image string, say *progress) error {
	if _, err := exec.LookPath(engine); err != nil {
		return unavailable("not on PATH")
	}
	// A client may exist without an engine, or with one that hangs.
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := talk(short, engine, "ps", "--quiet"); err != nil {
		return unavailable("a client whose engine does not answer: " + err.Error())
	}
	// The containers of killed owners have ended. The hour spares those that a
	// test stopped and will start again.
	_ = talk(ctx, engine, "container", "prune", "--force", "--filter", "label="+label, "--filter", "until=1h")
	if talk(ctx, engine, "image", "inspect", image) == nil {
		return nil
	}
	return say.step(ctx, "pulling "+image+" with "+engine+" (some 300 MB)", func(ctx context.Context) error {
		return talk(ctx, engine, "pull", image)
	})
}

func startContainer(ctx context.Context, engine, image string, c cache) (server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	run, err := newRun(c.path("runs"))
	if err != nil {
		return nil, err
	}
	s := &container{engine: engine, image: image, port: port, run: run}
	// The port is the same inside and outside, because the replica set gives it
	// to its clients.
	publish := fmt.Sprintf("127.0.0.1:%d:%d", port, port)
	args := append([]string{
		"run", "--interactive", "--name=" + s.name(), "--label=" + label, "--publish=" + publish,
		"--entrypoint=sh", image, "-c", leash, "mongod", "--bind_ip=0.0.0.0",
	}, mongodArgs(s.name(), port)...)
	if err := s.attach(ctx, args...); err != nil {
		return nil, errors.Join(err, s.remove()) // it must be removed even if ctx is over
	}
	return s, nil
}

func (s *container) launch(ctx context.Context) error {
	return s.attach(ctx, "start", "--attach", "--interactive", s.name())
}

// attach runs the engine's client, which holds the leash, and waits for the
// container's mongod.
func (s *container) attach(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cmd := exec.Command(s.engine, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("making the container's leash: %w", err)
	}
	p, err := startProcess(cmd, s.run.path("container.log"))
	if err != nil {
		return err
	}
	s.client, s.stdin = crew{p}, stdin
	if err := p.says(ctx, "Waiting for connections"); err != nil {
		return fmt.Errorf("%s %s: %w", s.engine, strings.Join(args, " "), err)
	}
	if err := initiate(ctx, s.name(), s.port); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(p.log))
	}
	return nil
}

func (s *container) kill() error {
	if s.client.ended() {
		return nil
	}
	if err := s.tell("kill"); err != nil {
		return err
	}
	for _, p := range s.client {
		<-p.ended
	}
	return nil
}

func (s *container) remove() error {
	err := s.tell("rm", "--force", "--volumes")
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
	return errors.Join(err, s.client.kill(), s.run.remove())
}

func (s *container) tell(command ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return talk(ctx, s.engine, append(command, s.name())...)
}

func (s *container) name() string { return "doclock-" + filepath.Base(s.run.dir) }
func (s *container) uri() string  { return replicaSetURI(s.name(), s.port) }
func (s *container) origin() string {
	return s.image + " in " + s.engine + ", port " + strconv.Itoa(s.port)
}
func (s *container) ended() bool { return s.client.ended() }

// talk runs a command of the engine's client. Its error has the client's output
// on one line.
func talk(ctx context.Context, engine string, args ...string) error {
	cmd := exec.CommandContext(ctx, engine, args...)
	cmd.WaitDelay = time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w (%s)", engine, args[0], err, strings.Join(strings.Fields(string(said)), " "))
	}
	return nil
}
