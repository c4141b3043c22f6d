package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// This file writes a history as JSON lines while it happens, and reads it again.

// line is one line of a recorded history.
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
func Keep() *Writer { return &Writer{all: newRecords()} }

// History is what a Writer of [Keep] has.
func (w *Writer) History() *History {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.history()
}

// Document writes a document.
func (w *Writer) Document(d Document) { w.write(line{Document: &d}) }

// Operation writes an operation in its present state.
func (w *Writer) Operation(o Operation) { w.write(line{Operation: &o}) }

// Command writes a command in its present state.
func (w *Writer) Command(c Command) { w.write(line{Command: &c}) }

// Fault records that a fault has fired.
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

// Err returns the first error of the Writer.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Encode writes the history as JSON lines.
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
// counts. A last line that is cut off, by the end of its process, is left out.
func Decode(in io.Reader) (*History, error) {
	all := newRecords()
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
		all.add(l)
	}
	return all.history(), nil
}

// records are the lines of a history. Of what was written twice the later line counts.
type records struct {
	History
	operations map[recorded]Operation
	commands   map[recorded]Command
}

// recorded names an operation or a command.
type recorded struct {
	process int
	number  int64
}

func newRecords() *records {
	return &records{History{Faults: map[string]int{}}, map[recorded]Operation{}, map[recorded]Command{}}
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
	h.sort()
	return &h
}
