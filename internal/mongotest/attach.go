//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// attach connects to the shared server. If there is none, it starts one, and
// prepares it if necessary. A server that it starts outlives its last user by
// linger.
func attach(ctx context.Context, c cache, linger time.Duration, say *progress) (*Shared, error) {
	lock, err := c.lock(ctx, say)
	if err != nil {
		return nil, err
	}
	defer lock.close()

	shared, err := dial(ctx, c)
	if !errors.Is(err, errNoSupervisor) {
		return shared, err
	}
	w, err := find(ctx, ways(), c, say)
	if err != nil {
		return nil, err
	}
	if err := spawn(c, w, linger); err != nil {
		return nil, err
	}
	shared, err = dial(ctx, c)
	if errors.Is(err, errNoSupervisor) {
		return nil, fmt.Errorf("%w\n%s", err, tail(c.path("supervisor.log")))
	}
	return shared, err
}

var errNoSupervisor = errors.New("no supervisor answers")

// dial connects to the supervisor and waits for its greeting, which comes when
// the server answers. The caller holds the cache's lock until then.
func dial(ctx context.Context, c cache) (*Shared, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", c.socket())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return nil, errNoSupervisor
	case err != nil:
		return nil, fmt.Errorf("connecting to the supervisor: %w", err)
	}

	// A stopped or stuck supervisor must not block us for ever.
	if err := conn.SetDeadline(time.Now().Add(2 * startLimit)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	hello, err := understand(conn)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil, errors.Join(errNoSupervisor, conn.Close()) // it was killed just now
	case err != nil:
		return nil, errors.Join(err, conn.Close())
	}
	return &Shared{uri: hello.URI, description: hello.Description, keeper: hello.PID, hold: conn}, nil
}

// startPrivate starts a server that belongs to this process.
func startPrivate(ctx context.Context, say *progress) (server, error) {
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	lock, err := c.lock(ctx, say)
	if err != nil {
		return nil, err
	}
	w, err := find(ctx, ways(), c, say)
	lock.close()
	if err != nil {
		return nil, err
	}
	srv, err := w.start(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("starting a server by way of %s: %w", w.name, err)
	}
	return srv, nil
}
