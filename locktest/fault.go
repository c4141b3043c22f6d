package locktest

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// faults are what the next commands meet. The first kind that is due is met, and
// counts one less.
type faults struct {
	refused  int
	refusal  mongo.CommandError
	requests int
	replies  int
	delayed  int
	delay    time.Duration
}

// Fail has the server refuse the next n commands with this error, and execute none
// of them. 0 ends it.
//
// Each method of this kind counts the commands that come next, those of renewals
// and of the clean-up included. So give the order right before the call that it is
// meant for. A command meets one fault: a refusal first, then a lost request, a
// lost reply, a delay. The library repeats a command of unknown outcome, and the
// driver repeats a read once, so a caller seldom sees one lost reply.
func (s *Server) Fail(n int, refusal mongo.CommandError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.refused, s.faults.refusal = max(0, n), refusal
}

// LoseRequests breaks the connection of each of the next n commands before the
// server gets it: it is not executed, and nobody can tell. 0 ends it.
func (s *Server) LoseRequests(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.requests = max(0, n)
}

// LoseReplies breaks the connection of each of the next n commands after the
// server has executed it: nobody can tell. 0 ends it.
func (s *Server) LoseReplies(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.replies = max(0, n)
}

// Delay has each of the next n commands arrive later, by d on the server's clock.
// 0 ends it. If the sender's context ends first, the request arrives all the same,
// late: it is executed before the first command that comes after its time.
func (s *Server) Delay(n int, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.delayed, s.faults.delay = max(0, n), d
}

// Down has no server be reachable from now on, for this reason. Commands wait, and
// fail as they do with the driver.
func (s *Server) Down(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = reason
	s.turn()
}

// Up ends what [Server.Down] began.
func (s *Server) Up() { s.Down(nil) }

// fault is what one command meets.
type fault uint8

const (
	none fault = iota
	refused
	requestLost
	replyLost
	delayed
)

// take is the next command's fault. It needs the server's mutex.
func (f *faults) take() fault {
	for _, due := range []struct {
		left *int
		kind fault
	}{{&f.refused, refused}, {&f.requests, requestLost}, {&f.replies, replyLost}, {&f.delayed, delayed}} {
		if *due.left > 0 {
			*due.left--
			return due.kind
		}
	}
	return none
}
