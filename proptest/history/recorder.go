package history

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
)

// Clock is a process's clock: nanoseconds since 1970 at its start, and
// monotonic after that.
type Clock struct{ start time.Time }

// NewClock starts a clock.
func NewClock() Clock { return Clock{time.Now()} }

// Now reads the clock.
func (c Clock) Now() int64 { return c.At(time.Now()) }

// At is what the clock has shown, or will show, at an instant.
func (c Clock) At(t time.Time) int64 { return c.start.UnixNano() + int64(t.Sub(c.start)) }

// Recorder writes the commands of one process's clients when the driver sends
// them, and the replies when they come, even if no caller waits for them.
type Recorder struct {
	process  int
	database string
	clock    Clock
	out      *Writer

	mu     sync.Mutex
	number int64
	sent   map[flight][]Command
}

type flight struct {
	connection string
	request    int64
}

// NewRecorder records the findAndModify commands and the batched renewals in
// one database.
func NewRecorder(process int, database string, clock Clock, out *Writer) *Recorder {
	return &Recorder{process: process, database: database, clock: clock, out: out, sent: map[flight][]Command{}}
}

// Number is the next number of a command or an operation of this process.
func (r *Recorder) Number() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	return r.number
}

// Monitor is an option of a client.
func (r *Recorder) Monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.DatabaseName != r.database {
				return
			}
			commands := readCommands(e.Command)
			for i := range commands {
				c := &commands[i]
				c.Process, c.Number, c.Sent = r.process, r.Number(), r.clock.Now()
				r.out.Command(*c) // before it leaves: it may be the process's last
			}
			if commands != nil {
				r.mu.Lock()
				r.sent[flight{e.ConnectionID, e.RequestID}] = commands
				r.mu.Unlock()
			}
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			commands := r.landed(e.ConnectionID, e.RequestID)
			now := r.clock.Now()
			several := len(commands) > 1 && !commands[1].Handed
			for i := range commands {
				c := &commands[i]
				switch {
				case e.Reply.Lookup("writeConcernError").Type != 0: // it may be rolled back
				case e.CommandName != "update":
					c.Answered = now
					c.readReply(e.Reply, several)
					if c.Handed && !c.Matched {
						c.Kind = commandNothing
					}
				case matchedAll(e.Reply, len(commands)): // otherwise it is unknown which one matched
					c.Answered, c.Matched = now, true
				}
				r.out.Command(*c)
			}
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			r.landed(e.ConnectionID, e.RequestID) // its outcome stays unknown, whatever the error says
		},
	}
}

func (r *Recorder) landed(connection string, request int64) []Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := flight{connection, request}
	commands := r.sent[key]
	delete(r.sent, key)
	return commands
}

// Ghost records that a command may be executed without the driver, once more or
// late, from now on.
func (r *Recorder) Ghost(body bson.Raw) {
	for _, c := range ReadCommand(body) {
		c.Process, c.Number, c.Sent, c.Ghost = r.process, r.Number(), r.clock.Now(), true
		r.out.Command(c)
	}
}
