package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// run is what one process of a simulation has and records.
type run struct {
	world
	groups   []*group
	programs []*program
	operator *operator
	history  *history.Writer
	clock    history.Clock

	mu       sync.Mutex // of all that follows, and of what it points to
	ticks    int
	calls    []*call
	acquires []*acquire
	holdings []*holding
	commands []*command
	tokens   []*token
	tickets  map[string]bool // the ids of those that were left alone
	unsure   []span          // in which a command may not have reached the server
	late     map[string]bool // the ids of requests that may arrive after their caller has left
	over     bool            // no fault comes any more
	found    []string        // violations that were found at once
	leftover []admin.Entry   // in the documents at the end
	panics   *panics
}

// world is what differs between a server in memory, in virtual time, and a real one.
type world struct {
	shape
	mem    *locktest.Server                                       // or nil
	net    network                                                // of one in memory, or of a cluster in memory; or nil
	dial   func(...*options.ClientOptions) (*mongo.Client, error) // one in memory
	faulty bool                                                   // calls meet faults
	pace   time.Duration                                          // how many times as fast as in virtual time it goes
	apart  time.Duration                                          // by which members' clocks are set wrong at most; 0: there is one member
}

// network has the faults of a server or of a cluster in memory.
type network interface {
	Fail(n int, refusal mongo.CommandError, only ...locktest.Kind)
	LoseRequests(n int, only ...locktest.Kind)
	LoseReplies(n int, only ...locktest.Kind)
	Delay(n int, d time.Duration, only ...locktest.Kind)
	Lose(lease locktest.Guarded) error
}

// exact says that time is virtual and there is one server: each duration is exact.
func (w *world) exact() bool { return w.mem != nil }

// span is a time from one instant to another.
type span struct{ from, to time.Time }

func newRun(w world, groups []*group, out *history.Writer) *run {
	return &run{world: w, groups: groups, history: out, clock: history.NewClock(), tickets: map[string]bool{}, late: map[string]bool{}}
}

// tick is the number of the next thing that happens. The run is locked.
func (s *run) tick() int {
	s.ticks++
	return s.ticks
}

// These begin the names of faults that were not of a real server.
const (
	inMemory  = "in memory: "
	ofCluster = "replica set: "
)

// fire counts a fault, also if the process is killed.
func (s *run) fire(fault string) {
	switch {
	case s.mem != nil:
		fault = inMemory + fault
	case s.net != nil:
		fault = ofCluster + fault
	}
	s.history.Fault(fault)
}

// fault is a violation that is found at once.
func (s *run) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, fmt.Sprintf(format, args...))
}

// peaceful says that there are no faults any more.
func (s *run) peaceful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// drive has some callers make one turn after the other.
func (s *run) drive(callers int, more func() bool) {
	var driving sync.WaitGroup
	for i := range callers {
		r := s.runner(i)
		driving.Go(func() {
			for more() {
				r.turn()
				r.pause(400 * time.Millisecond)
			}
		})
	}
	driving.Wait()
}

// runner is one goroutine that acts at random.
type runner struct {
	*run
	*rand.Rand
	number int
	writes *atomic.Int64
}

// runner makes one with a fate of its own.
func (s *run) runner(number int) runner {
	return runner{s, rand.New(rand.NewPCG(s.seed, uint64(number))), number, &atomic.Int64{}}
}

// upTo is a random duration, at most this long in virtual time.
func (r runner) upTo(most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(max(1, most/r.pace))))
}

// pause waits for a random time.
func (r runner) pause(most time.Duration) { time.Sleep(r.upTo(most)) }

// one reports true once in n times.
func (r runner) one(n int) bool { return r.IntN(n) == 0 }

// harms says that a call may meet a fault of its own.
func (r runner) harms() bool { return r.net != nil && r.faulty && !r.peaceful() }

// close closes a program's Lockers, and waits for what they run.
func (s *run) close(p *program) {
	s.mu.Lock()
	if p.closed.IsZero() {
		p.closed = time.Now()
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	closing.Go(func() { s.left(p, p.leader.Close(context.Background())) })
	for _, l := range p.lockers {
		closing.Go(func() { s.left(p, l.Close(context.Background())) })
	}
	closing.Wait()
}

// left judges what Close returns. A fault may keep its last attempt from an answer, and
// then it says what it leaves.
func (s *run) left(p *program, err error) {
	s.mu.Lock()
	p.left = cmp.Or(p.left, err)
	s.mu.Unlock()
	if err != nil && (!s.faulty || !strings.Contains(err.Error(), "may leave entries that nobody holds")) {
		s.fault("Close returned %v", err)
	}
}
