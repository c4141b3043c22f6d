package history

import "math"

// Object is one document's lock as a concurrent object: its commands with the
// intervals in which they took effect, for a checker of linearizability.
type Object struct {
	Document Document
	Steps    []Step
}

// Step is one command. Call and Return are on the server's clock, as wide as
// the clocks are uncertain; a command without an answer returns at the end of
// time, or never was.
type Step struct {
	Command
	Call, Return int64 // nanoseconds

	// Possible is, of a join without an answer, what later images show that it
	// did; nil where none shows it.
	Possible *Entry
}

// Linearizable lists every document with all that was sent to it.
func (h *History) Linearizable() []Object {
	h.place()
	all := clocks(h.Commands)
	var objects []Object
	for _, d := range h.Documents {
		o := Object{Document: d}
		first := map[string]Entry{} // by id, as first seen
		for _, c := range h.Commands {
			if c.Document != d.ID || c.Image == nil {
				continue
			}
			for _, e := range c.Image.Entries {
				was, known := first[e.ID]
				if !known || e.Seq < was.Seq || e.Seq == was.Seq && e.Expires < was.Expires {
					first[e.ID] = e
				}
			}
		}
		for _, c := range h.Commands {
			if c.Document != d.ID {
				continue
			}
			s := Step{Command: c, Call: all[c.Process].earliest(c.Sent), Return: math.MaxInt64}
			if c.Answered != 0 {
				s.Return = all[c.Process].latest(c.Answered)
			} else if e, seen := first[c.ID]; seen && (c.Kind == CommandAcquire || c.Kind == CommandConfirm) {
				s.Possible = &e
			}
			o.Steps = append(o.Steps, s)
		}
		objects = append(objects, o)
	}
	return objects
}
