package history

import (
	"math"
	"slices"
)

// Object is one document's lock as a concurrent object: its commands with the
// intervals in which they took effect, for a checker of linearizability.
type Object struct {
	Document Document
	Steps    []Step

	// Hidden: a command that joins or confirms was never answered. It may have
	// pruned expired entries, or taken a fence, without any image of it. A claim
	// that names no document may have joined any.
	Hidden bool
}

// Step is one command. Call and Return are on the server's clock, and include
// the clocks' uncertainty.
type Step struct {
	Command
	Call, Return int64 // nanoseconds

	// Maybe: the command was never answered, and was executed or not. It is
	// listed because it may explain an image: an entry that a join made or a
	// confirm granted, as in Possible, or an absent entry. Its Return is the
	// end of the time in which it can have had that effect.
	Maybe    bool
	Possible *Entry
}

// Linearizable lists the documents with the commands sent to them, except those
// with [Document.Terms]. It leaves out
// commands without an answer that explain nothing that was seen.
func (h *History) Linearizable() []Object {
	h.place()
	all := h.clocksOf()
	nowhere := slices.ContainsFunc(h.Commands, func(c Command) bool {
		return c.Kind == CommandAcquire && c.Document == "" && c.Answered == 0
	})
	var objects []Object
	for _, d := range h.Documents {
		if d.Terms {
			continue
		}
		c := newCheck(h, d, all, nil)
		o := Object{Document: d, Hidden: nowhere}
		accounted := map[*arrival]bool{} // made by an answered join
		byID := map[string][]*arrival{}
		for _, a := range c.arrivals {
			byID[a.ID] = append(byID[a.ID], a)
		}
		for _, s := range c.sightings {
			for _, a := range byID[s.command.ID] {
				if s.command.Kind == CommandAcquire && s.Now != 0 && (s.Now == a.Since || s.command.Inherits) && s.Fence == a.Seq {
					accounted[a] = true
				}
			}
		}
		for i := range c.commands {
			command := c.commands[i]
			s := Step{Command: command, Call: c.sent(&command), Return: c.answered(&command)}
			if command.Answered != 0 && (command.Image == nil || command.Image.Now != 0) {
				o.Steps = append(o.Steps, s)
				continue
			}
			// There is no answer, or only a stored image of an earlier
			// execution.
			s.Maybe, s.Answered, s.Image, s.Matched = true, 0, nil, false
			joins := command.Kind == CommandAcquire || command.Kind == CommandConfirm
			o.Hidden = o.Hidden || joins
			for _, a := range byID[command.ID] {
				s := s
				e := a.Entry
				switch command.Kind {
				case CommandAcquire:
					if e.Fence != e.Seq {
						e.Fence = 0
					}
					s.Possible, s.Return = &e, a.seen
					if accounted[a] {
						continue
					}
				case CommandConfirm:
					s.Possible, s.Return = &e, a.held
					if a.Fence == 0 || a.Fence == a.Seq {
						continue
					}
				case CommandRelease, CommandWriteAndRelease:
					s.Return = a.absent
				default:
					continue
				}
				if s.Return >= s.Call {
					o.Steps = append(o.Steps, s)
				}
			}
		}
		objects = append(objects, o)
	}
	return objects
}

// Forever is the Return of a step that may take effect at any time.
const Forever = math.MaxInt64
