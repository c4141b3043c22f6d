package history

import (
	"cmp"
	"fmt"
	"slices"
)

// arrival is an entry that was seen, with the certain facts of its life. Times
// are nanoseconds on the server's clock.
type arrival struct {
	Entry          // as last seen; Fence as soon as it is known
	asked    int64 // it did not arrive earlier than this
	seen     int64 // it had arrived by then
	granted  int64 // it was not granted earlier than this
	held     int64 // it was granted by then
	expires  int64 // others could be let in from then on; the latest expiry that was seen
	released int64 // it was not released earlier than this; never without a release
	absent   int64 // it was absent by then; never if that wasn't seen

	passes    bool // it may have come in the place of another one: those that wait stay behind it
	resumed   bool // an earlier entry under a new id and a new fence
	remainder bool // an earlier entry under a new id, which nobody holds
}

func (a *arrival) String() string {
	return fmt.Sprintf("%s %.8s (seq %d, fence %d)", a.Tag, a.ID, a.Seq, a.Fence)
}

// end is the time until which the entry certainly excluded others.
func (a *arrival) end() int64 { return min(a.expires, a.released) }

// new reports whether the entry came by an acquire, and not in the place of an
// earlier one that has the same seq.
func (a *arrival) new() bool { return !a.resumed && !a.remainder }

// later says that x was granted after a, by its fence, or else by the times.
func (c *check) later(x, a *arrival) bool {
	return x.Fence > a.Fence && (!c.deletes || c.apart == 0 || x.granted > a.held)
}

// is reports whether the entry is this one. An id can come back under another
// seq, and that of a resume under another fence.
func (a *arrival) is(e Entry) bool {
	return e.ID == a.ID && e.Seq == a.Seq && (e.Fence == 0 || a.Fence == 0 || e.Fence == a.Fence)
}

// gather makes the arrivals from the images.
func (c *check) gather() {
	note := func(e Entry, from, to int64) {
		i := slices.IndexFunc(c.byID[e.ID], func(a *arrival) bool { return a.is(e) })
		if i < 0 {
			i = len(c.byID[e.ID])
			a := &arrival{Entry: e, asked: never, seen: never, granted: forever, held: never, released: never, absent: never}
			c.byID[e.ID] = append(c.byID[e.ID], a)
			c.arrivals = append(c.arrivals, a)
		}
		a := c.byID[e.ID][i]
		a.seen = min(a.seen, to)
		a.expires = max(a.expires, e.Expires*millisecond)
		if e.Fence == 0 {
			a.granted = max(a.granted, from)
			return
		}
		a.Fence, a.held = e.Fence, min(a.held, to)
		c.byToken[lease{e.ID, e.Fence}] = a
	}
	for _, s := range c.sightings {
		for _, e := range s.Entries {
			note(e, s.from, s.to)
		}
	}
	for _, command := range c.commands {
		if command.Own != nil && command.Answered != 0 { // a release's image has the removed entry
			note(*command.Own, c.sent(command), c.answered(command))
		}
	}
	c.keys()
	for _, command := range c.commands {
		for _, a := range c.byID[command.ID] {
			switch command.Kind {
			case CommandAcquire, CommandConvert:
				a.asked = min(a.asked, c.sent(command))
				a.passes = a.passes || command.Kind == CommandConvert || len(command.Named) > 0
			case CommandResume:
				a.asked, a.resumed = min(a.asked, c.sent(command)), true
			case CommandRelease, CommandWriteAndRelease:
				if command.Fence == 0 || a.Fence == 0 || command.Fence == a.Fence { // its grant may never have been seen
					a.released = min(a.released, c.sent(command))
				}
			}
		}
	}
	c.remainders()
	for _, a := range c.arrivals {
		if a.asked == never {
			a.asked = forever
		}
		a.granted = max(a.granted, a.asked)
		for _, s := range c.sightings {
			if s.from > a.seen && s.to < a.absent && !s.shows(a) {
				a.absent = s.to
				break
			}
		}
	}
	for _, command := range c.commands {
		for _, a := range c.arrivals {
			if c.ends(command, a) && c.answered(command) > a.asked { // otherwise the entry came after it
				a.released = min(a.released, max(a.asked, c.sent(command)))
			}
		}
	}
	slices.SortFunc(c.arrivals, func(a, b *arrival) int { return cmp.Compare(a.Seq, b.Seq) })
}

// keys finds the ids that the entry of a token has had.
func (c *check) keys() {
	note := func(key, id string) {
		if key != "" && id != "" && !slices.Contains(c.byKey[key], id) {
			c.byKey[key] = append(c.byKey[key], id)
		}
	}
	for _, command := range c.commands {
		note(command.Key, command.ID)
	}
	for _, s := range c.sightings {
		for _, e := range s.Entries {
			note(e.Key, e.ID)
		}
	}
}

// ends says that a command, other than its release, may have ended the entry, or put another in the place of it.
func (c *check) ends(command *Command, a *arrival) bool {
	switch command.Kind {
	case CommandDelete:
		return command.Matched || command.Answered == 0
	case CommandResume:
		return command.ID != a.ID && slices.Contains(c.byKey[command.Key], a.ID)
	case CommandConvert:
		refused := false
		if command.Image != nil {
			_, refused = command.Image.find(a.ID)
		}
		return command.From == a.ID && !refused
	default:
		return command.takes(a)
	}
}

// remainders marks the entries that a release has left behind: nobody has asked
// for them, and they have the seq and the fence of the lease that was released.
func (c *check) remainders() {
	bySeq := map[int64][]*arrival{}
	for _, a := range c.arrivals {
		bySeq[a.Seq] = append(bySeq[a.Seq], a)
	}
	for _, same := range bySeq {
		for _, a := range same {
			left := func(b *arrival) bool { return b != a && b.asked != never && (b.Fence == a.Fence || b.Fence == 0) }
			a.remainder = a.asked == never && a.Until != 0 && slices.ContainsFunc(same, left)
		}
	}
}
