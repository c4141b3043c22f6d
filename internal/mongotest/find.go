//go:build unix

package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A way is one way of getting a server on this machine.
type way struct {
	name string
	// prepare checks that this machine has the way, and does the work that is
	// done once per machine: downloads and builds. The cache's lock is held. An
	// unavailable error means: try the next way. Any other error ends the
	// search.
	prepare func(context.Context, cache, *progress) error
	// start makes a server with its own data and waits until it answers.
	start func(context.Context, cache) (server, error)
}

// A server is a running MongoDB-compatible server that belongs to this process.
type server interface {
	uri() string
	origin() string               // its origin, for people
	kill() error                  // ends it at once, as kill -9 does; the data stays
	launch(context.Context) error // starts it again, on the same data and port
	ended() bool                  // whether it has ended by itself
	remove() error                // ends it and removes its data
}

// ways are the ways of getting a server, in the order in which they are tried.
func ways() []way {
	image, demanded := image()
	containers := []way{containerWay("docker", image), containerWay("podman", image)}
	if demanded {
		return containers
	}
	return slices.Concat(
		[]way{mongodWay("mongod")},
		containers,
		[]way{{"DocumentDB", prepareDocumentDB, startDocumentDB}},
	)
}

func wayByName(name string) (way, error) {
	for _, w := range ways() {
		if w.name == name {
			return w, nil
		}
	}
	return way{}, fmt.Errorf("no way of getting a server is called %q", name)
}

// unavailable is the reason why this machine does not have a way.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// find picks the first of the ways that this machine has, and prepares it.
func find(ctx context.Context, ways []way, c cache, say *progress) (way, error) {
	tried := []string{"MONGODB_URI: not set"}
	for _, w := range ways {
		err := w.prepare(ctx, c, say)
		if err == nil {
			return w, nil
		}
		var missing unavailable
		if !errors.As(err, &missing) {
			return way{}, fmt.Errorf("preparing a server by way of %s (after %s): %w", w.name, strings.Join(tried, "; "), err)
		}
		tried = append(tried, w.name+": "+missing.Error())
	}
	return way{}, &notFoundError{tried: tried, root: os.Geteuid() == 0}
}

// notFoundError lists the attempts, and the commands that would help.
type notFoundError struct {
	tried []string
	root  bool
}

func (e *notFoundError) Error() string {
	var text strings.Builder
	text.WriteString("no MongoDB-compatible server to be had on this machine. Tried, in this order:\n")
	for i, reason := range e.tried {
		fmt.Fprintf(&text, "  %d. %s\n", i+1, reason)
	}
	text.WriteString("Any one of these helps:\n" +
		"  - a server that runs already:  MONGODB_URI=mongodb://HOST:PORT/ go test ./...\n" +
		"  - a mongod on PATH, version 4.4 or later\n" +
		"  - a running Docker or Podman engine\n")
	if !e.root {
		text.WriteString("  - on Debian or Ubuntu, a server run by root in another terminal:\n" +
			"      sudo env \"PATH=$PATH\" go run ./internal/mongotest/serve\n" +
			"    and here the line  export MONGODB_URI=…  that it prints\n")
	}
	return text.String()
}
