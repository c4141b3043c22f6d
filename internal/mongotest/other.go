//go:build !unix

package mongotest

import (
	"context"
	"errors"
	"time"
)

// On other systems, which means Windows, only a server that is already running
// is used.

type server interface {
	uri() string
	kill() error
	launch(context.Context) error
	remove() error
}

var errElsewhere = errors.New("on this system, servers are not started: set MONGODB_URI, or use WSL or a container")

func checkOwned(string) error { return nil }

func attach(context.Context, cache, time.Duration, *progress) (*Shared, error) {
	return nil, errElsewhere
}

func startPrivate(context.Context, *progress) (server, error) { return nil, errElsewhere }
