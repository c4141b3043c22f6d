package lease

import (
	"maps"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// Holds are the holds of one Locker that are valid, or are being ended.
type Holds struct {
	locker
	keeper keeper

	mu       sync.Mutex // taken last
	standing map[uuid.UUID]*Hold
	reserved map[uuid.UUID]*Handle // by hold: the last part that nobody has taken yet
}

// NewHolds is for Lockers: the commands are sent with ops, succession learns how each
// hold ends, and the observer gets the events of the leases that are announced.
func NewHolds(e *engine.Engine, ops *attempt.Group, succession Succession, observer *Observer) *Holds {
	hs := &Holds{
		locker:   locker{engine: e, commands: e, ops: ops, succession: succession, observer: observer},
		keeper:   keeper{engine: e, wake: make(chan struct{}, 1)},
		standing: map[uuid.UUID]*Hold{},
		reserved: map[uuid.UUID]*Handle{},
	}
	hs.holds = hs
	return hs
}

// New makes the hold of what was granted, and returns its first holder's part.
// sent is when the command was sent that granted it, or earlier. Others may
// join one that is shared. The hold's [Ending] has the unanswered attempts of the
// acquire: they may make the entry again once it has gone.
func (hs *Holds) New(g engine.Grant, sent engine.Reading, shared bool, unanswered ...Unanswered) *Handle {
	s := newHold(&hs.locker, g, sent, shared, unanswered)
	hs.mu.Lock()
	hs.standing[g.ID] = s
	hs.mu.Unlock()
	s.start()
	return &s.first
}

// Valid reports whether a hold with this id is here, and not over.
func (hs *Holds) Valid(id uuid.UUID) bool { return hs.find(id) != nil }

func (hs *Holds) find(id uuid.UUID) *Hold {
	hs.mu.Lock()
	s := hs.standing[id]
	hs.mu.Unlock()
	if s == nil || s.isOver() {
		return nil
	}
	return s
}

// Left is a hold that nobody has ended, and until when the server keeps it.
type Left struct {
	engine.Grant
	Until time.Time
}

// Left are the holds that are valid, or whose last command is not answered yet.
func (hs *Holds) Left() (all []Left) {
	hs.mu.Lock()
	standing := maps.Clone(hs.standing)
	hs.mu.Unlock()
	for _, s := range standing {
		if left := s.left() + s.engine.Tolerance; left > 0 {
			all = append(all, Left{s.grant, s.engine.Clocks().Wall.Add(left)})
		}
	}
	return all
}

func (hs *Holds) remove(id uuid.UUID) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.standing, id)
}
