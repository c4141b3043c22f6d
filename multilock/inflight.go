package multilock

import (
	"context"
	"sync"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
)

// Bounds of the acquires and confirms of one Locker that are under way at a
// time. A command runs on when its caller gives up, so without a bound a storm
// of callers with short deadlines piles them up: on the document, where the
// holder's renewal stands among them, and in the driver's connection pool,
// of 100 where nothing else is said.
const (
	mostPerDocument = 8
	mostPerLocker   = 64
)

// inflight bounds the acquires and confirms of one Locker, those included whose
// callers have gone. Renewals, releases and clean-ups are not counted: they
// never wait for an acquire.
type inflight struct {
	all chan struct{}

	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is what is under way to one document.
type lane struct {
	slots chan struct{}
	users int // who have a slot, or wait for one
}

func newInflight() *inflight {
	return &inflight{all: make(chan struct{}, mostPerLocker), lanes: map[string]*lane{}}
}

// enter waits until a command to the document may be sent, ctx ends or closing
// is closed. Who gets an error has sent nothing.
func (f *inflight) enter(ctx context.Context, document string, closing <-chan struct{}) (leave func(), err error) {
	l := f.lane(document)
	if err := take(ctx, l.slots, closing); err != nil {
		f.drop(document, l)
		return nil, err
	}
	if err := take(ctx, f.all, closing); err != nil {
		<-l.slots
		f.drop(document, l)
		return nil, err
	}
	return func() {
		<-f.all
		<-l.slots
		f.drop(document, l)
	}, nil
}

func take(ctx context.Context, slots chan struct{}, closing <-chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-closing:
		return doclock.ErrClosed
	}
}

func (f *inflight) lane(document string) *lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lanes[document]
	if l == nil {
		l = &lane{slots: make(chan struct{}, mostPerDocument)}
		f.lanes[document] = l
	}
	l.users++
	return l
}

func (f *inflight) drop(document string, l *lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(f.lanes, document)
	}
}
