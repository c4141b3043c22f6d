package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The faults of a server in memory. Those of a real one have the first two, too.
const (
	FaultRefused     = "command refused"
	FaultRequestLost = "request lost"
	FaultReplyLost   = "reply lost after execution"
	FaultDelayed     = "request delayed"
	FaultFailOver    = "refused as in a fail-over"
	faultTrouble     = "server that refuses all"
	FaultClock       = "server's clock set forward"
	FaultBroken      = "entry broken by admin.Break"
	FaultTakenOver   = "lock taken over from those in the way"
	FaultLose        = "lease taken away"
	FaultHurried     = "Close whose context ends"
	FaultPanic       = "panic in a command monitor"
	FaultValidator   = "refused by a validator"
)

// forbidden is the reason of a refusal: the command was certainly not executed.
const forbidden = "forbidden on purpose"

// faults has the server do wrong. The last ones are those of one member.
func (r runner) faults(over context.Context) {
	most := 43
	if !r.exact() {
		most = 34
	}
	for over.Err() == nil {
		r.pause(2 * time.Second)
		n := 1 + r.IntN(3)
		switch k := r.IntN(most); {
		case k < 4:
			r.failOver(n)
		case k < 9:
			r.mem.Fail(n, []mongo.CommandError{
				{Code: 13, Message: forbidden},                   // a refusal
				{Code: 11600, Message: "interrupted on purpose"}, // which passes
				{Code: 424242, Message: "no answer on purpose"},  // which proves nothing
			}[r.IntN(3)])
			r.fire(FaultRefused)
		case k < 10:
			r.mem.Fail(n, mongo.CommandError{Code: 121, Message: "Document failed validation"}, locktest.Acquires)
			r.fire(FaultValidator)
		case k < 16:
			r.mem.LoseRequests(n)
			r.fire(FaultRequestLost)
		case k < 25:
			r.mem.LoseReplies(n)
			r.fire(FaultReplyLost)
		case k < 34:
			r.mem.Delay(n, r.upTo(4*time.Second))
			r.fire(FaultDelayed)
		case k < 36:
			r.down(r.length("server down"))
		case k < 39:
			r.cut()
		case k < 42:
			r.panics()
		default:
			r.mem.Advance(r.upTo(3 * time.Second))
			r.fire(FaultClock)
		}
	}
}

// A server that is overloaded says so by two labels, and one of them alone
// proves nothing.
var (
	failOvers = []int32{91, 189, 10107, 11600, 11602, 13435, 13436}
	labels    = [][]string{nil, {"RetryableError"}, {"SystemOverloadedError"}, {"SystemOverloadedError", "RetryableError"}}
)

func (r runner) failOver(n int) {
	of := labels[r.IntN(len(labels))]
	r.fire(FaultFailOver)
	r.fire(labelled(of))
	refusal := mongo.CommandError{Code: failOvers[r.IntN(len(failOvers))], Message: "failed over on purpose", Labels: of}
	if r.one(2) {
		r.mem.Fail(n, refusal)
	} else {
		r.trouble(refusal, r.length(faultTrouble))
	}
}

// trouble has the server refuse all commands for a time.
func (r runner) trouble(refusal mongo.CommandError, d time.Duration) {
	r.mem.Fail(1<<30, refusal)
	time.Sleep(d)
	r.mem.Fail(0, refusal)
	if slices.Contains(refusal.Labels, "SystemOverloadedError") {
		const longestRest = 15 * time.Second // of a clean-up
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rests = time.Now().Add(longestRest)
	}
}

// labelled is the fault of an error with these labels.
func labelled(labels []string) string {
	return fmt.Sprintf("refused with the labels %q", labels)
}

// lengths are those of outages: against the lives of attempts, leases of either program,
// leases with a TTL of their own, and a command that waits for a server.
var lengths = []struct {
	name        string
	least, most time.Duration
}{
	{"for less than an attempt", 0, 4 * time.Second / 3},
	{"for less than a TTL", 4 * time.Second / 3, 4 * time.Second},
	{"for about a TTL", 4 * time.Second, longestTTL},
	{"for longer than a TTL", longestTTL, 40 * time.Second},
}

// outage is the fault of an outage of some length.
func outage(what, length string) string { return fmt.Sprintf("%s %s", what, length) }

// length draws that of an outage. The longest are rare.
func (r runner) length(what string) time.Duration {
	k := []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 3}[r.IntN(10)]
	r.fire(outage(what, lengths[k].name))
	return lengths[k].least + r.upTo(lengths[k].most-lengths[k].least)
}

// down lets no server be reachable for a time.
func (r runner) down(d time.Duration) {
	r.mem.Down(errCut)
	time.Sleep(d)
	r.mem.Up()
}

var errCut = errors.New("cut on purpose")

// cut cuts one program off for a time, while the other goes on: with its next request,
// or after its next command.
func (r runner) cut() {
	p := r.programs[r.IntN(len(r.programs))]
	struck, step := make(chan struct{}), r.IntN(2)
	d := r.length("program cut off")
	strike := sync.OnceFunc(func() {
		r.mem.Cut(p.client)
		close(struck)
	})
	p.strikes[step].Store(&strike)
	select {
	case <-struck:
	case <-time.After(time.Second):
		strike()
	}
	p.strikes[step].Store(nil)
	time.Sleep(d)
	r.mem.Reconnect(p.client)
}

// panics has a program's monitor panic, before its next command or after the answer.
func (r runner) panics() {
	p := r.programs[r.IntN(len(r.programs))]
	step := r.IntN(2)
	var once sync.Once
	strike := func() {
		panics := false
		once.Do(func() { panics = true })
		if panics {
			p.strikes[step].Store(nil)
			r.fire(FaultPanic)
			panic(thrown)
		}
	}
	p.strikes[step].Store(&strike)
}

// strike lets the fault happen that waits for this step of a command.
func (p *program) strike(step int) {
	if f := p.strikes[step].Load(); f != nil {
		(*f)()
	}
}

func (s *run) peace() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.mem.Fail(0, mongo.CommandError{})
	s.mem.LoseRequests(0)
	s.mem.LoseReplies(0)
	s.mem.Delay(0, 0)
	s.mem.Up()
}
