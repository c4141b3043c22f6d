package lease

import (
	"context"
	"sync"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/observe"
	"github.com/google/uuid"
)

// Holds are the holds of one Locker that are valid.
type Holds struct {
	locker
	keeper keeper

	mu    sync.Mutex // taken last
	valid map[uuid.UUID]*Hold
}

// NewHolds is for Lockers: the commands are sent with ops, succession learns how each
// hold ends, and the observer gets the events of the leases that are announced.
func NewHolds(e *engine.Engine, ops *attempt.Group, succession Succession, observer *observe.Observer) *Holds {
	hs := &Holds{
		locker: locker{engine: e, commands: e, ops: ops, succession: succession, observer: observer},
		keeper: keeper{engine: e, wake: make(chan struct{}, 1)},
		valid:  map[uuid.UUID]*Hold{},
	}
	hs.holds = hs
	return hs
}

// New makes the hold of what was granted, and returns its first holder's part.
// sent is when the command was sent that granted it, or earlier. Others may
// join one that is shared. The hold's [Ending] has the unanswered attempts of the
// acquire: they may enter the id again once the entry has gone.
func (hs *Holds) New(g engine.Grant, sent engine.Reading, shared bool, unanswered ...Unanswered) *Handle {
	s := newHold(&hs.locker, g, sent, shared, unanswered)
	hs.mu.Lock()
	hs.valid[g.ID] = s
	hs.mu.Unlock()
	s.start()
	return &s.first
}

// Join is one more holder's part of a shared hold. It asks the server nothing.
// It is nil where nobody can join any more: the lock is being released, or a
// third of its time has passed.
func (hs *Holds) Join(id uuid.UUID) *Handle {
	s := hs.shared(id)
	if s == nil || s.remaining() < s.grant.TTL*2/3 {
		return nil
	}
	return s.join()
}

// Look is a Join that asks the server, by a renewal. Its image tells whether
// somebody has come whom the tag respects; the lease must be released then. The
// error is [ErrLost] where the hold can't be joined any more.
func (hs *Holds) Look(ctx context.Context, id uuid.UUID, document bool) (h *Handle, img *engine.Image, err error) {
	s := hs.shared(id)
	if s == nil {
		return nil, nil, ErrLost
	}
	if h = s.join(); h == nil {
		return nil, nil, ErrLost
	}
	err = s.renewWith(ctx, func(ctx context.Context, g engine.Grant) (engine.Answer, error) {
		got, err := hs.commands.Look(ctx, g, document)
		img = got.Image
		return got, err
	})
	if err != nil {
		h.tellDiscarded(h.Release(context.Background()))
		return nil, nil, err
	}
	return h, img, nil
}

// Valid reports whether a hold with this id is here, and not over.
func (hs *Holds) Valid(id uuid.UUID) bool { return hs.find(id) != nil }

// shared is the valid hold with this id, if others may join it.
func (hs *Holds) shared(id uuid.UUID) *Hold {
	s := hs.find(id)
	if s == nil || !s.shared {
		return nil
	}
	return s
}

func (hs *Holds) find(id uuid.UUID) *Hold {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.valid[id]
}

func (hs *Holds) remove(id uuid.UUID) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.valid, id)
}
