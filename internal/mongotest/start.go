package mongotest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// linger is how long the shared server outlives its last user: long enough for
// `go test` to compile the next package.
const linger = 15 * time.Second

// Shared is a program's connection to the shared server. The server stays while
// there is any connection.
type Shared struct {
	uri         string
	description string
	keeper      int // the supervisor's process number; 0 without one

	release sync.Once
	hold    io.Closer // nil for a server of MONGODB_URI
}

// Start connects to the shared server, and starts it if there is none. This
// takes a second or two, or minutes the first time on a machine where
// everything has to be downloaded. progress, if not nil, gets the progress. ctx
// bounds only the start. The caller closes the result; the end of the program
// closes it too.
func Start(ctx context.Context, progress io.Writer) (*Shared, error) {
	if uri := os.Getenv("MONGODB_URI"); uri != "" {
		return given(ctx, uri)
	}
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	return attach(ctx, c, linger, newProgress(progress))
}

// given is the server of MONGODB_URI.
func given(ctx context.Context, uri string) (*Shared, error) {
	what, err := probe(ctx, uri, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("MONGODB_URI is set, so nothing else is tried: %w", err)
	}
	return &Shared{uri: uri, description: what + "; MONGODB_URI"}, nil
}

// URI is the server's connection string.
func (s *Shared) URI() string { return s.uri }

// Description is the server's kind, version and topology, and how it was found,
// in one line.
func (s *Shared) Description() string { return s.description }

// Close leaves the server. A second Close does nothing.
func (s *Shared) Close() error {
	var err error
	s.release.Do(func() {
		if s.hold != nil {
			err = s.hold.Close()
		}
	})
	if err != nil {
		return errors.Join(errors.New("letting the shared server go"), err)
	}
	return nil
}
