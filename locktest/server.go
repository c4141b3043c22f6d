package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is a database server in memory, made by [New]. It is safe for concurrent
// use. It has no goroutine and listens nowhere, so nothing has to be closed.
type Server struct {
	store  *store.Store
	client *mongo.Client
	faults

	mu      sync.Mutex
	ahead   time.Duration                 // of the clock, before this machine's
	late    []late                        // requests that have not arrived yet
	clients map[*mongo.Client]*deployment // that are connected
	waits   map[chan struct{}]bool        // of commands, closed when something changes that they wait for
	down    error                         // why no server can be reached; nil if one can
}

// New makes a server without documents, in a [testing/synctest] bubble or outside of
// it.
func New() *Server {
	s := &Server{store: store.New(), waits: map[chan struct{}]bool{}, clients: map[*mongo.Client]*deployment{}}
	var err error
	if s.client, err = s.Connect(); err != nil {
		panic(fmt.Sprintf("locktest: this version of the driver can't be used: %v", err))
	}
	return s
}

// Connect makes one more client of the server, with options as a program has them: a
// registry, BSON options, a command monitor, timeouts. Options that say where a
// server is have no effect. Clients need no Disconnect.
func (s *Server) Connect(opts ...*options.ClientOptions) (*mongo.Client, error) {
	if s.store == nil {
		return nil, errors.New("locktest: a Server is made by New")
	}
	to := &deployment{Server: s, patience: selectionTimeout}
	for _, o := range opts {
		if o != nil && o.ServerSelectionTimeout != nil {
			to.patience = *o.ServerSelectionTimeout
		}
	}
	here := options.Client()
	here.Deployment = to //nolint:staticcheck // the driver has no other way to give a client a server in memory
	client, err := mongo.Connect(append(opts[:len(opts):len(opts)], here)...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to.client, s.clients[client] = client, to
	return client, nil
}

// Client returns the one client that has the collections of [Server.Collection]. A
// program that disconnects its client needs one of its own: see [Server.Connect].
func (s *Server) Client() *mongo.Client { return s.client }

// Collection returns a collection of the database "test", with these documents in
// it. Each is what the driver's InsertOne takes. Two Lockers of it are as two
// programs.
func (s *Server) Collection(name string, documents ...any) (*mongo.Collection, error) {
	if s.client == nil {
		return nil, errors.New("locktest: a Server is made by New")
	}
	coll := s.client.Database("test").Collection(name)
	if len(documents) == 0 {
		return coll, nil
	}
	if _, err := coll.InsertMany(context.Background(), documents); err != nil {
		return nil, fmt.Errorf("locktest: insert the documents: %w", err)
	}
	return coll, nil
}

// Now is the server's clock.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// now needs the mutex.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// Advance turns the server's clock forward by d, or back if d is negative. The
// programs' clocks stay, as if the programs had been stopped for d and had not
// looked at a clock since. So a lease whose entry has expired counts as valid until
// its next command, and nothing is written under it once another holder was let in.
//
// To move the programs' timers too (renewals, waiting, the end of a validity), let
// time pass in a [testing/synctest] bubble.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	s.turn()
}

// turn wakes the commands that wait. It needs the mutex.
func (s *Server) turn() {
	for turned := range s.waits {
		close(turned)
	}
	clear(s.waits)
}

// pause waits for the next turn. It is called with the mutex and returns without it.
// Each wait has a channel of its own, which belongs to the bubble of the command.
func (s *Server) pause(ctx context.Context, atMost time.Duration) error {
	turned := make(chan struct{})
	s.waits[turned] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waits, turned)
	}()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-turned:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
