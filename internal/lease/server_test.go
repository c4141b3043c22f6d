package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// server is a collection in memory. Its commands take a millisecond, and meet what a test adds.
type server struct {
	engine *engine.Engine
	coll   *mongo.Collection // the tests' own view

	mu    sync.Mutex
	log   []call
	fault func(ctx context.Context, c call) error // before the command is executed, or nil
	lose  func(c call) error                      // after it, or nil
}

// call is a command that was sent.
type call struct {
	name      string
	at        time.Time
	documents []int
}

func (s *server) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(s.log))
	for i, c := range s.log {
		names[i] = c.name
	}
	return names
}

func (s *server) calls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// execute logs a command, and sends it.
func (s *server) execute(ctx context.Context, name string, grants []engine.Grant, send func(context.Context) error) (sent engine.Reading, err error) {
	sent = s.engine.Clocks()
	if err := engine.BeginSending(ctx); err != nil {
		return sent, err
	}
	c := call{name: name, at: time.Now()}
	for _, g := range grants {
		c.documents = append(c.documents, int(g.Pin.ID().Int32()))
	}
	s.mu.Lock()
	s.log = append(s.log, c)
	fault, lose := s.fault, s.lose
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, c); err != nil {
			return sent, err
		}
	}
	if !attempt.Sleep(ctx, time.Millisecond) {
		return sent, ctx.Err()
	}
	err = send(engine.WithSending(ctx, nil))
	if lose != nil {
		if lost := lose(c); lost != nil {
			return sent, lost
		}
	}
	return sent, err
}

// one sends a command of one lease.
func (s *server) one(ctx context.Context, name string, g engine.Grant, send func(context.Context) (engine.Answer, error)) (a engine.Answer, err error) {
	sent, err := s.execute(ctx, name, []engine.Grant{g}, func(ctx context.Context) (err error) { a, err = send(ctx); return err })
	if err != nil {
		a = engine.Answer{}
	}
	a.Sent = sent
	return a, err
}

func (s *server) Renew(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	return s.one(ctx, "renew", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Renew(ctx, g) })
}

func (s *server) Release(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	return s.one(ctx, "release", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Release(ctx, g) })
}

func (s *server) Delete(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	return s.one(ctx, "delete", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Delete(ctx, g) })
}

func (s *server) Write(ctx context.Context, g engine.Grant, u *engine.Update, k int64) (engine.Answer, error) {
	return s.one(ctx, "write", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Write(ctx, g, u, k) })
}

func (s *server) WriteAndRelease(ctx context.Context, g engine.Grant, u *engine.Update) (engine.Answer, error) {
	return s.one(ctx, "write and release", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.WriteAndRelease(ctx, g, u) })
}

func (s *server) Handoff(ctx context.Context, g engine.Grant, to engine.Successor) (engine.Answer, error) {
	return s.one(ctx, "handoff", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Handoff(ctx, g, to) })
}

func (s *server) WriteAndHandOff(ctx context.Context, g engine.Grant, u *engine.Update, to engine.Successor) (engine.Answer, error) {
	return s.one(ctx, "write and hand off", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.WriteAndHandOff(ctx, g, u, to) })
}

func (s *server) Detach(ctx context.Context, g engine.Grant, key uuid.UUID) (engine.Answer, error) {
	return s.one(ctx, "detach", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Detach(ctx, g, key) })
}

func (s *server) Convert(ctx context.Context, g engine.Grant, k int64, to engine.Request) (engine.Answer, error) {
	return s.one(ctx, "convert", g, func(ctx context.Context) (engine.Answer, error) { return s.engine.Convert(ctx, g, k, to) })
}

func (s *server) RenewAll(ctx context.Context, grants []engine.Grant) (a engine.Answer, err error) {
	sent, err := s.execute(ctx, "renew all", grants, func(ctx context.Context) (err error) { a, err = s.engine.RenewAll(ctx, grants); return err })
	if err != nil {
		a = engine.Answer{Outcome: engine.Lost}
	}
	a.Sent = sent
	return a, err
}

func (s *server) ReleaseAll(ctx context.Context, grants []engine.Grant) (missing int, err error) {
	_, err = s.execute(ctx, "release all", grants, func(ctx context.Context) (err error) {
		missing, err = s.engine.ReleaseAll(ctx, grants)
		return err
	})
	return missing, err
}

func (s *server) Standing(ctx context.Context, grants []engine.Grant) (all []engine.Standing, sent engine.Reading, err error) {
	sent, err = s.execute(ctx, "read", grants, func(ctx context.Context) (err error) {
		all, _, err = s.engine.Standing(ctx, grants)
		return err
	})
	return all, sent, err
}

func (s *server) Read(ctx context.Context, pin engine.Pin) (img *engine.Image, err error) {
	_, err = s.execute(ctx, "read", nil, func(ctx context.Context) (err error) { img, err = s.engine.Read(ctx, pin); return err })
	return img, err
}

func (s *server) Unreachable() error { return nil }
