package mongotest

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is a private server of one test. Its methods may be called from any
// goroutine of the test, one at a time. They report errors with the test's
// Errorf.
type Server struct {
	tb     testing.TB
	server server
}

// Private starts a server for tests that kill it: never the shared one,
// and never that of MONGODB_URI. It takes a second or two. The server and its
// data are removed at the end of the test.
func Private(tb testing.TB) *Server {
	tb.Helper()
	out, done := terminal()
	defer done()
	srv, err := startPrivate(tb.Context(), newProgress(out))
	if err != nil {
		tb.Fatalf("mongotest: %v", err)
	}
	tb.Cleanup(func() {
		if err := srv.remove(); err != nil {
			tb.Errorf("mongotest: %v", err)
		}
	})
	return &Server{tb: tb, server: srv}
}

// URI is the server's connection string. It stays the same through restarts.
func (s *Server) URI() string { return s.server.uri() }

// Client makes a client of the server. It is disconnected at the end of the
// test.
func (s *Server) Client(opts ...*options.ClientOptions) *mongo.Client {
	s.tb.Helper()
	return connect(s.tb, s.URI(), opts...)
}

// Kill ends the server at once, as kill -9 does, with its storage processes.
// Restart starts it again.
func (s *Server) Kill() {
	s.tb.Helper()
	s.report("killing", s.server.kill())
}

// Restart kills the server if it still runs, starts it on the same data and port, and returns when it answers.
func (s *Server) Restart() {
	s.tb.Helper()
	s.report("killing", s.server.kill())
	s.report("restarting", s.server.launch(context.WithoutCancel(s.tb.Context())))
}

func (s *Server) report(doing string, err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Errorf("mongotest: %s the private server: %v", doing, err)
	}
}
