package lease

import (
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

	mu       sync.Mutex // taken last
	valid    map[uuid.UUID]*Hold
	reserved map[uuid.UUID]*Handle // by hold: the last part that nobody has taken yet
}

// NewHolds is for Lockers: the commands are sent with ops, succession learns how each
// hold ends, and the observer gets the events of the leases that are announced.
func NewHolds(e *engine.Engine, ops *attempt.Group, succession Succession, observer *observe.Observer) *Holds {
	hs := &Holds{
		locker:   locker{engine: e, commands: e, ops: ops, succession: succession, observer: observer},
		keeper:   keeper{engine: e, wake: make(chan struct{}, 1)},
		valid:    map[uuid.UUID]*Hold{},
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
	hs.valid[g.ID] = s
	hs.mu.Unlock()
	s.start()
	return &s.first
}

// Valid reports whether a hold with this id is here, and not over.
func (hs *Holds) Valid(id uuid.UUID) bool { return hs.find(id) != nil }

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
