package multilock

import (
	"context"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
)

// Bounds of the acquires and confirms of one Locker that are under way at a
// time. A command continues when its caller gives up. So without a bound, many
// callers with short deadlines would pile up commands: on the document, where the
// holder's renewal waits among them, and in the driver's connection pool, which
// has 100 connections by default. Renewals, releases and clean-ups don't wait for it.
const (
	mostPerDocument = 8
	mostPerLocker   = 64
)

// slots are those of one Locker, taken in the order of arrival.
type slots struct {
	locker *Locker
	all    chan struct{}

	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is what is under way to one document.
type lane struct {
	slots chan struct{}
	users int // acquires that have a slot, or wait for one
}

// take waits until a command of the call may be sent, ctx ends or closing is closed. With an
// error nothing was sent. Otherwise the caller calls sent when the command has ended, and
// done when its entry is removed or used.
func (s *slots) take(ctx context.Context, c *call, closing <-chan struct{}) (sent, done func(), err error) {
	l := s.enter(c.lane)
	if err := s.wait(ctx, l.slots, c, closing); err != nil {
		s.leave(c.lane, l)
		return nil, nil, err
	}
	done = func() {
		<-l.slots
		s.leave(c.lane, l)
	}
	if err := s.wait(ctx, s.all, c, closing); err != nil {
		done()
		return nil, nil, err
	}
	return func() { <-s.all }, done, nil
}

// wait takes a slot. Those ahead may wait for a server, one after the other: when none can be
// reached, a call waits no longer than they do.
func (s *slots) wait(ctx context.Context, slots chan struct{}, c *call, closing <-chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	looks := time.NewTicker(max(c.bounds.RetryLimit, c.bounds.Timeout))
	defer looks.Stop()
	for {
		select {
		case slots <- struct{}{}:
			return nil
		case <-looks.C:
			if err := s.locker.engine.Unreachable(); err != nil {
				return explain("acquire", err)
			}
		case <-ctx.Done():
			return attempt.Ended(ctx)
		case <-closing:
			return s.locker.closed
		}
	}
}

func (s *slots) enter(document string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[document]
	if l == nil {
		l = &lane{slots: make(chan struct{}, mostPerDocument)}
		s.lanes[document] = l
	}
	l.users++
	return l
}

func (s *slots) leave(document string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(s.lanes, document)
	}
}
