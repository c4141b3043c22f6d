package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// History is what was recorded.
type History struct {
	Documents  []Document
	Operations []Operation
	Commands   []Command
	Faults     map[string]int // how often each fault was done to the clients
}

// Document is one locked document: how it was locked, and what was found in it
// when all was over.
type Document struct {
	ID        string `json:"id"`
	Name      string `json:"name"` // of the table, for people
	Table     Table  `json:"table"`
	TTL       int64  `json:"ttl"` // milliseconds, as the next two
	WaitTTL   int64  `json:"waitTTL"`
	Tolerance int64  `json:"tolerance"`

	// Log holds one line for every guarded write, in the order of their
	// application: "token name". Each write appends its own.
	Log []string `json:"log,omitempty"`
}

// Table is a table of relations: Table[x][y] is what x does where it meets y.
type Table map[string]map[string]Relation

// Relation is present where x respects y.
type Relation struct {
	Assertive bool `json:"assertive,omitempty"` // waits; else it is refused
	Allow     int  `json:"allow,omitempty"`
}

// Kinds of operations.
const (
	TryAcquire       = "TryAcquire"
	Acquire          = "Acquire"
	Enqueue          = "Enqueue"
	Confirm          = "Confirm"
	Wait             = "Wait"
	Cancel           = "Cancel"
	Renew            = "Renew"
	Update           = "Update"
	UpdateAndRelease = "UpdateAndRelease"
	Release          = "Release"
	Look             = "look"  // at Remaining and Err: what the holder believes
	Crash            = "crash" // the lease is dropped, nobody releases it
)

// Outcomes of operations.
const (
	Granted  = "granted"
	Waiting  = "waiting"
	Conflict = "conflict"
	NotFound = "not found"
	Lost     = "lost"
	Released = "released" // refused, for the lease was given away before
	Done     = "done"     // renewed, applied, released
	Unknown  = "unknown"
	Failed   = "failed" // certainly without effect
	Timeout  = "timeout"
	Believed = "believed"
	Over     = "over"
)

// Operation is one call of the library.
type Operation struct {
	Process  int    `json:"process"`
	Client   int    `json:"client"`
	Number   int64  `json:"number"` // within the process
	Kind     string `json:"kind"`
	Document string `json:"document"`
	Tag      string `json:"tag,omitempty"`
	ID       string `json:"id,omitempty"`    // the entry's
	Token    int64  `json:"token,omitempty"` // of the lease
	Write    string `json:"write,omitempty"` // its name in the document's log

	Call    int64  `json:"call"`             // nanoseconds on the process's clock
	Return  int64  `json:"return,omitempty"` // 0: it never returned
	Wall    int64  `json:"wall,omitempty"`   // what the holder's wall clock, right or wrong, said at the call
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`

	// Remaining is, of a look, how long the holder thinks that the lease
	// lasts, in nanoseconds from some instant between call and return.
	Remaining int64 `json:"remaining,omitempty"`
}

// Kinds of commands.
const (
	CommandAcquire         = "acquire"
	CommandConfirm         = "confirm"
	CommandRenew           = "renew"
	CommandRelease         = "release"
	CommandWrite           = "write"
	CommandWriteAndRelease = "write-and-release"
	CommandRead            = "read"
	commandNothing         = "nothing" // the second half of a handoff whose first found nothing
)

// Command is one message to the server, and its reply. A handoff is two: the
// release, with an update or without, and what the heir asks in the same
// message the moment after.
type Command struct {
	Process  int    `json:"process"`
	Number   int64  `json:"number"` // within the process
	Kind     string `json:"kind"`
	Document string `json:"document"`
	Tag      string `json:"tag,omitempty"`
	ID       string `json:"id,omitempty"`
	Token    int64  `json:"token,omitempty"` // in its guard
	K        int64  `json:"k,omitempty"`     // the number of a guarded write
	Write    string `json:"write,omitempty"`
	Owner    string `json:"owner,omitempty"` // of the entry that it may make

	Sent     int64 `json:"sent"`
	Answered int64 `json:"answered,omitempty"` // 0: it may be executed at any time from Sent on, or never
	Matched  bool  `json:"matched,omitempty"`  // answered with an image

	Image *Image `json:"image,omitempty"` // of the whole lock, after the command
	Own   *Entry `json:"own,omitempty"`   // of a release: what it removed

	// Handed marks what a holder asked for its heir, and Inherits the
	// compare-and-set: there the heir's entry takes the holder's place, and its
	// number is the next after the holder's, whatever the clock says.
	Handed   bool `json:"handed,omitempty"`
	Inherits bool `json:"inherits,omitempty"`

	// Ghost marks what no driver sent: a duplicate, executed late.
	Ghost bool `json:"ghost,omitempty"`
}

// Image is the lock field of a document as a command left it, or a read found
// it.
type Image struct {
	Now     int64   `json:"now,omitempty"` // the server's clock in milliseconds; 0 in a stored image
	Fence   int64   `json:"fence"`
	Entries []Entry `json:"entries,omitempty"`
}

// Entry is one entry in an image. Times are milliseconds on the server's clock.
type Entry struct {
	Tag     string `json:"tag"`
	ID      string `json:"id"`
	Seq     int64  `json:"seq"`
	Fence   int64  `json:"fence,omitempty"` // 0: waiting
	Since   int64  `json:"since"`
	Expires int64  `json:"expires"`
	N       int64  `json:"n,omitempty"`
}

func (img *Image) find(id string) (Entry, bool) {
	for _, e := range img.Entries {
		if e.ID == id {
			return e, true
		}
	}
	return Entry{}, false
}

// Clock is a process's: nanoseconds since 1970 at its start, and monotonic
// from there on.
type Clock struct{ start time.Time }

// NewClock starts one.
func NewClock() Clock { return Clock{time.Now()} }

// Now reads it.
func (c Clock) Now() int64 { return c.start.UnixNano() + int64(time.Since(c.start)) }

// line is one line of a recorded history.
type line struct {
	Document  *Document  `json:"document,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
	Command   *Command   `json:"command,omitempty"`
	Fault     string     `json:"fault,omitempty"`
}

// Writer writes a history as JSON lines while it happens. What is in flight is
// written at its begin and again at its end, so that the history of a process
// that is killed is complete. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewWriter writes to w, one call a line.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Document writes a document.
func (w *Writer) Document(d Document) { w.write(line{Document: &d}) }

// Operation writes an operation, as far as it got.
func (w *Writer) Operation(o Operation) { w.write(line{Operation: &o}) }

// Command writes a command, as far as it got.
func (w *Writer) Command(c Command) { w.write(line{Command: &c}) }

// Fault writes that a fault has fired.
func (w *Writer) Fault(name string) { w.write(line{Fault: name}) }

func (w *Writer) write(l line) {
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

// Err is the first error of the Writer.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Encode writes the history as JSON lines.
func (h *History) Encode(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	w := NewWriter(buffered)
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

// Decode reads JSON lines. Of what was written twice, the later one counts. A
// last line that is cut off, by the end of its process, is left out.
func Decode(in io.Reader) (*History, error) {
	type key struct {
		process int
		number  int64
	}
	operations, commands := map[key]Operation{}, map[key]Command{}
	h := &History{Faults: map[string]int{}}
	r := bufio.NewReader(in)
	for {
		text, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %q: %w", text, err)
		}
		switch {
		case l.Document != nil:
			h.Documents = append(h.Documents, *l.Document)
		case l.Operation != nil:
			operations[key{l.Operation.Process, l.Operation.Number}] = *l.Operation
		case l.Command != nil:
			commands[key{l.Command.Process, l.Command.Number}] = *l.Command
		case l.Fault != "":
			h.Faults[l.Fault]++
		}
	}
	for _, o := range operations {
		h.Operations = append(h.Operations, o)
	}
	for _, c := range commands {
		h.Commands = append(h.Commands, c)
	}
	h.sort()
	return h, nil
}

func (h *History) sort() {
	slices.SortFunc(h.Operations, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
	slices.SortFunc(h.Commands, func(a, b Command) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
}

// Merge adds the records of another process.
func (h *History) Merge(other *History) {
	h.Documents = append(h.Documents, other.Documents...)
	h.Operations = append(h.Operations, other.Operations...)
	h.Commands = append(h.Commands, other.Commands...)
	for name, n := range other.Faults {
		if h.Faults == nil {
			h.Faults = map[string]int{}
		}
		h.Faults[name] += n
	}
}
