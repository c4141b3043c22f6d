package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// server answers commands from memory, after a millisecond.
type server struct {
	engine *engine.Engine

	mu      sync.Mutex
	entries map[uuid.UUID]*entry
	log     []call
	fault   func(ctx context.Context, c call) error // before the command is executed, or nil
	lose    func(c call) error                      // after it, or nil
	until   time.Time                               // of the entries that are read
	refuse  bool                                    // conversions
}

// entry is one that stands in a document.
type entry struct {
	document int
	expires  time.Time
	writes   int64
	key      uuid.UUID
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

// remove takes an entry out, as somebody else's command does.
func (s *server) remove(h *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, h.ID())
}

// execute logs a command and executes it.
func (s *server) execute(ctx context.Context, name string, grants []engine.Grant, do func()) (sent engine.Reading, err error) {
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
	s.mu.Lock()
	do()
	s.mu.Unlock()
	if lose != nil {
		err = lose(c)
	}
	return sent, err
}

// one executes a command that finds the grant's entry or none.
func (s *server) one(ctx context.Context, name string, g engine.Grant, outcome engine.Outcome, do func(*entry)) (engine.Answer, error) {
	a := engine.Answer{Outcome: engine.Lost}
	sent, err := s.execute(ctx, name, []engine.Grant{g}, func() {
		if e := s.entries[g.ID]; e != nil {
			a.Outcome = outcome
			do(e)
		}
	})
	a.Sent = sent
	return a, err
}

func (s *server) extend(g engine.Grant) func(*entry) {
	return func(e *entry) { e.expires = time.Now().Add(g.TTL + s.engine.Tolerance) }
}

func (s *server) Renew(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	return s.one(ctx, "renew", g, engine.Renewed, s.extend(g))
}

func (s *server) Release(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	return s.one(ctx, "release", g, engine.Released, func(*entry) { delete(s.entries, g.ID) })
}

func (s *server) ReleaseAll(ctx context.Context, grants []engine.Grant) (missing int, err error) {
	_, err = s.execute(ctx, "release all", grants, func() {
		for _, g := range grants {
			if s.entries[g.ID] == nil {
				missing++
			}
			delete(s.entries, g.ID)
		}
	})
	return missing, err
}

func (s *server) Delete(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	return s.one(ctx, "delete", g, engine.Released, func(*entry) { delete(s.entries, g.ID) })
}

func (s *server) Write(ctx context.Context, g engine.Grant, _ *engine.Update, k int64) (engine.Answer, error) {
	return s.one(ctx, "write", g, engine.Applied, func(e *entry) { e.writes = k })
}

func (s *server) WriteAndRelease(ctx context.Context, g engine.Grant, _ *engine.Update) (engine.Answer, error) {
	return s.one(ctx, "write and release", g, engine.Applied, func(*entry) { delete(s.entries, g.ID) })
}

func (s *server) RenewAll(ctx context.Context, grants []engine.Grant) (engine.Answer, error) {
	a := engine.Answer{Outcome: engine.Renewed}
	sent, err := s.execute(ctx, "renew all", grants, func() {
		for _, g := range grants {
			if e := s.entries[g.ID]; e != nil {
				s.extend(g)(e)
			} else {
				a.Outcome = engine.Lost
			}
		}
	})
	a.Sent = sent
	if err != nil {
		a.Outcome = engine.Lost
	}
	return a, err
}

func (s *server) Standing(ctx context.Context, grants []engine.Grant) (all []engine.Standing, sent engine.Reading, err error) {
	all = make([]engine.Standing, len(grants))
	sent, err = s.execute(ctx, "read", grants, func() {
		for i, g := range grants {
			if e := s.entries[g.ID]; e != nil {
				all[i] = engine.Standing{Left: min(time.Until(e.expires)-s.engine.Tolerance, g.TTL)}
			} else {
				all[i] = engine.Standing{Lost: &engine.Answer{Outcome: engine.Lost, Image: &engine.Image{Lock: engine.Lock{Fence: g.Fence}}}}
			}
		}
	})
	return all, sent, err
}

func (s *server) Handoff(ctx context.Context, g engine.Grant, _ engine.Successor) (engine.Answer, error) {
	return s.handOff(ctx, "handoff", g)
}

func (s *server) WriteAndHandOff(ctx context.Context, g engine.Grant, _ *engine.Update, _ engine.Successor) (engine.Answer, error) {
	return s.handOff(ctx, "write and hand off", g)
}

func (s *server) handOff(ctx context.Context, name string, g engine.Grant) (engine.Answer, error) {
	a, err := s.one(ctx, name, g, engine.Granted, func(*entry) { delete(s.entries, g.ID) })
	if a.Outcome == engine.Granted {
		a.Image = &engine.Image{ID: g.Pin.ID()}
	}
	return a, err
}

func (s *server) Detach(ctx context.Context, g engine.Grant, key uuid.UUID) (engine.Answer, error) {
	return s.one(ctx, "detach", g, engine.Detached, func(e *entry) {
		e.key = key
		s.extend(g)(e)
	})
}

// Convert is refused where the server is set to refuse.
func (s *server) Convert(ctx context.Context, g engine.Grant, k int64, to engine.Request) (engine.Answer, error) {
	a := engine.Answer{Outcome: engine.Lost, Image: &engine.Image{ID: g.Pin.ID()}}
	sent, err := s.execute(ctx, "convert", []engine.Grant{g}, func() {
		own, made := s.entries[g.ID], s.entries[to.ID]
		switch {
		case made != nil:
			a.Outcome = engine.Granted
		case own != nil && (s.refuse || own.writes >= k):
			a.Outcome = engine.Conflict
			own.writes = max(own.writes, k)
		case own != nil:
			a.Outcome = engine.Granted
			delete(s.entries, g.ID)
			s.entries[to.ID] = &entry{document: own.document}
		}
		if e := s.entries[to.ID]; e != nil {
			e.expires = time.Now().Add(s.engine.LeaseBy(to.Tag, to.Terms) + s.engine.Tolerance)
			a.Image.Lock.Entries = []engine.Entry{{Tag: to.Tag, ID: to.ID, Seq: g.Seq + 1, Fence: g.Fence + 1}}
		}
	})
	a.Sent = sent
	return a, err
}

func (s *server) Read(ctx context.Context, _ engine.Pin) (*engine.Image, error) {
	img := &engine.Image{}
	_, err := s.execute(ctx, "read", nil, func() {
		for id, e := range s.entries {
			img.Lock.Entries = append(img.Lock.Entries, engine.Entry{Tag: "write", ID: id, Fence: int64(e.document), Key: e.key, Until: s.until, Writes: e.writes})
		}
	})
	return img, err
}

func (s *server) Unreachable() error { return nil }
