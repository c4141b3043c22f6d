package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// errBroken is what a program sees of a lost request or a lost reply.
var errBroken = errors.New("locktest has broken the connection")

// late is a request that arrives after its sender has given up.
type late struct {
	due     time.Time
	command value.Document
}

// execute executes a command, unless a fault prevents it.
func (s *deployment) execute(ctx context.Context, command value.Document) (bson.RawValue, error) {
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	if cut != nil {
		return value.Missing, errBroken
	}
	met, refusal, delay := s.take(command)
	switch met {
	case refused:
		return refusal, nil
	case requestLost:
		return value.Missing, errBroken
	case replyLost:
		s.run(command)
		return value.Missing, errBroken
	case delayed:
		if err := s.wait(ctx, command, delay); err != nil {
			return value.Missing, err
		}
	}
	return s.run(command), nil
}

// run executes a command, after those that arrive late, but before it.
func (s *Server) run(command value.Document) bson.RawValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	slices.SortStableFunc(s.late, func(a, b late) int { return a.due.Compare(b.due) })
	for len(s.late) > 0 && !s.late[0].due.After(now) {
		s.store.Run(s.late[0].due, s.late[0].command)
		s.late = s.late[1:]
	}
	return s.store.Run(now, command)
}

// wait waits until a request arrives. If its sender gives up before, or its
// connection breaks, the request goes on.
func (s *deployment) wait(ctx context.Context, command value.Document, delay time.Duration) error {
	due := s.Now().Add(delay)
	for {
		s.mu.Lock()
		rest := due.Sub(s.now())
		if rest <= 0 {
			s.mu.Unlock()
			return nil
		}
		if s.cut != nil {
			s.late = append(s.late, late{due, command})
			s.mu.Unlock()
			return errBroken
		}
		if err := s.pause(ctx, rest); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.late = append(s.late, late{due, command})
			return err
		}
	}
}
