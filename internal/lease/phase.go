package lease

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// phase is what the commands of a hold have come to, and so what may follow. The
// package documentation draws it.
type phase uint8

const (
	held      phase = iota // any command may be sent, and others may join
	suspended              // a downgrade is under way: the hold is valid for nobody
	ending                 // its last command is under way: a release, UpdateAndRelease, Delete or Detach
	detached               // the entry was, or may have been, left to a token: only a release may be sent
	replaced               // a downgrade has, or may have, ended the hold
	gone                   // the last command was executed, or may have been
)

func (p phase) String() string {
	return [...]string{"held", "suspended", "ending", "detached", "replaced", "gone"}[p]
}

// follows has the phases that may follow each. A command that was refused, or not
// sent, leads back.
var follows = map[phase][]phase{
	held:      {suspended, ending},
	suspended: {held, replaced},
	ending:    {held, detached, gone},
	detached:  {ending},
}

// become changes the phase. The hold is locked. Another order than that of the
// drawing is a fault of this package.
func (s *Hold) become(next phase) {
	if !slices.Contains(follows[s.phase], next) {
		panic(fmt.Sprintf("doclock: a hold that is %v becomes %v", s.phase, next))
	}
	s.phase = next
}

// stands takes the end of a command back that was refused, or not sent: the entry
// stands as before. The hold is locked.
func (s *Hold) stands() {
	if s.key != uuid.Nil {
		s.become(detached)
	} else {
		s.become(held)
	}
}

// in reports whether the hold is in one of the phases.
func (s *Hold) in(phases ...phase) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(phases, s.phase)
}
