package history

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
)

// Clock is a process's clock: nanoseconds since 1970 at its start, and
// monotonic after that.
type Clock struct{ start time.Time }

func NewClock() Clock { return Clock{time.Now()} }

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

// NewRecorder records the findAndModify commands, the batched renewals and the reads of a
// whole lock in one database.
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
			if !c.Matched && (c.Handed || c.Claims || c.Kind == CommandRead) {
				c.Kind = commandNothing
			}
		case c.Kind == CommandAcquire: // of a batch: the read after it shows where it has made entries
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
	for _, c := range readCommands(body) {
		c.Process, c.Number, c.Sent, c.Ghost = r.process, r.Number(), r.clock.Now(), true
		r.out.Command(c)
	}
}

// This file writes a history as JSON lines while it happens, and reads it again.

type line struct {
	Document  *Document  `json:"document,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
	Command   *Command   `json:"command,omitempty"`
	Fault     string     `json:"fault,omitempty"`
	Apart     int64      `json:"apart,omitempty"`
}

// Writer writes a history as JSON lines while it happens. It writes each call
// and each command at its begin and again at its end, so that the history of a
// killed process is complete. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer // or nil
	all *records  // or nil
	err error
}

// NewWriter writes to w, with one call per line.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Keep makes a Writer that keeps the history itself.
func Keep() *Writer {
	return &Writer{all: &records{History{Faults: map[string]int{}}, map[recorded]Operation{}, map[recorded]Command{}}}
}

func (w *Writer) History() *History {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.history()
}

// Line adds a line that another Writer has written to those of a Writer of [Keep].
func (w *Writer) Line(text string) error {
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return fmt.Errorf("line %q: %w", text, err)
	}
	w.write(l)
	return nil
}

func (w *Writer) Document(d Document) { w.write(line{Document: &d}) }

// Operation writes an operation in its present state.
func (w *Writer) Operation(o Operation) { w.write(line{Operation: &o}) }

// Command writes a command in its present state.
func (w *Writer) Command(c Command) { w.write(line{Command: &c}) }

func (w *Writer) Fault(name string) { w.write(line{Fault: name}) }

func (w *Writer) write(l line) {
	if w.all != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all.add(l)
		return
	}
	data, err := json.Marshal(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.err == nil {
		_, err = w.w.Write(append(data, '\n'))
	}
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (h *History) Encode(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	w := NewWriter(buffered)
	if h.Apart != 0 {
		w.write(line{Apart: h.Apart})
	}
	for _, d := range h.Documents {
		w.Document(d)
	}
	for _, o := range h.Operations {
		w.Operation(o)
	}
	for _, c := range h.Commands {
		w.Command(c)
	}
	for name, n := range h.Faults {
		for range n {
			w.Fault(name)
		}
	}
	if err := w.Err(); err != nil {
		return err
	}
	return buffered.Flush()
}

// Decode reads JSON lines. If something was written twice, the later line
// counts.
func Decode(in io.Reader) (*History, error) {
	w := Keep()
	lines := bufio.NewScanner(in)
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		if err := w.Line(lines.Text()); err != nil {
			return nil, err
		}
	}
	return w.History(), lines.Err()
}

// records are the lines of a history. Of what was written twice the later line counts.
type records struct {
	History
	operations map[recorded]Operation
	commands   map[recorded]Command
}

type recorded struct {
	process int
	number  int64
}

func (r *records) add(l line) {
	switch {
	case l.Apart != 0:
		r.Apart = l.Apart
	case l.Document != nil:
		r.Documents = append(r.Documents, *l.Document)
	case l.Operation != nil:
		r.operations[recorded{l.Operation.Process, l.Operation.Number}] = *l.Operation
	case l.Command != nil:
		r.commands[recorded{l.Command.Process, l.Command.Number}] = *l.Command
	case l.Fault != "":
		r.Faults[l.Fault]++
	}
}

func (r *records) history() *History {
	h := r.History
	h.Operations, h.Commands = slices.Collect(maps.Values(r.operations)), slices.Collect(maps.Values(r.commands))
	slices.SortFunc(h.Operations, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
	slices.SortFunc(h.Commands, func(a, b Command) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
	return &h
}
