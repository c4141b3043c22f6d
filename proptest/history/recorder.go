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
			r.sends(flight{e.ConnectionID, e.RequestID}, e.Command, r.clock.Now())
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			r.hears(flight{e.ConnectionID, e.RequestID}, e.CommandName, e.Reply, r.clock.Now())
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			r.landed(flight{e.ConnectionID, e.RequestID}) // its outcome stays unknown, whatever the error says
		},
	}
}

// Message is a command of a client in another language, or the reply to one, as its process
// prints them.
type Message struct {
	Request int64  `json:"request"` // its number within the process
	Name    string `json:"name"`    // of the command
	At      int64  `json:"at"`      // on the process's clock
	Command []byte `json:"command,omitempty"`
	Reply   []byte `json:"reply,omitempty"`
}

// Message records one, as if the driver had announced it here.
func (r *Recorder) Message(m Message) {
	if m.Reply == nil {
		r.sends(flight{request: m.Request}, m.Command, m.At)
	} else {
		r.hears(flight{request: m.Request}, m.Name, m.Reply, m.At)
	}
}

func (r *Recorder) sends(key flight, body bson.Raw, now int64) {
	commands := readCommands(body)
	for i := range commands {
		c := &commands[i]
		c.Process, c.Number, c.Sent = r.process, r.Number(), now
		r.out.Command(*c) // before it leaves: it may be the process's last
	}
	if commands != nil {
		r.mu.Lock()
		r.sent[key] = commands
		r.mu.Unlock()
	}
}

func (r *Recorder) hears(key flight, name string, reply bson.Raw, now int64) {
	commands := r.landed(key)
	several := len(commands) > 1 && !commands[1].Handed
	for i := range commands {
		c := &commands[i]
		switch {
		case reply.Lookup("writeConcernError").Type != 0: // it may be rolled back
		case name != "update":
			c.Answered = now
			c.readReply(reply, several)
			if c.Handed && !c.Matched {
				c.Kind = commandNothing
			}
		case matchedAll(reply, len(commands)): // otherwise it is unknown which one matched
			c.Answered, c.Matched = now, true
		}
		r.out.Command(*c)
	}
}

func (r *Recorder) landed(key flight) []Command {
	r.mu.Lock()
	defer r.mu.Unlock()
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
