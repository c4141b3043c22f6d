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
	return x.Fence > a.Fence && (!c.remade || x.granted > a.held)
}

// is reports whether the entry is this one. An id can come back under another
// seq, and that of a resume under another fence.
func (a *arrival) is(e Entry) bool {
	return e.ID == a.ID && e.Seq == a.Seq && (e.Fence == 0 || a.Fence == 0 || e.Fence == a.Fence)
}

// gather makes the arrivals from the images.
func (c *check) gather() {
	byID := c.byID
	note := func(e Entry, from, to int64) {
		i := slices.IndexFunc(byID[e.ID], func(a *arrival) bool { return a.is(e) })
		if i < 0 {
			i = len(byID[e.ID])
			a := &arrival{Entry: e, asked: never, seen: never, granted: forever, held: never, released: never, absent: never}
			byID[e.ID] = append(byID[e.ID], a)
			c.arrivals = append(c.arrivals, a)
		}
		a := byID[e.ID][i]
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
	for i := range c.commands { // a release's image has the removed entry
		if command := &c.commands[i]; command.Own != nil && command.Answered != 0 {
			note(*command.Own, c.sent(command), c.answered(command))
		}
	}
	c.keys()
	for i := range c.commands {
		command := &c.commands[i]
		for _, a := range byID[command.ID] {
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
	for i := range c.commands {
		command := &c.commands[i]
		if command.Kind == CommandDelete && (command.Matched || command.Answered == 0) {
			for _, a := range c.arrivals {
				if c.answered(command) > a.asked {
					a.released = min(a.released, max(a.asked, c.sent(command)))
				}
			}
		}
		for _, n := range command.Named {
			for _, a := range byID[n.ID] {
				if command.takes(a) && c.answered(command) > a.asked {
					a.released = min(a.released, c.sent(command))
				}
			}
		}
		for _, id := range c.ended(command) {
			for _, a := range byID[id] {
				if c.answered(command) > a.asked { // otherwise the entry came after it
					a.released = min(a.released, c.sent(command))
				}
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
	for i := range c.commands {
		note(c.commands[i].Key, c.commands[i].ID)
	}
	for _, s := range c.sightings {
		for _, e := range s.Entries {
			note(e.Key, e.ID)
		}
	}
}

// ended are the ids of the entries that a resume or a conversion may have put
// another in the place of.
func (c *check) ended(command *Command) (ids []string) {
	switch command.Kind {
	case CommandResume:
		for _, id := range c.byKey[command.Key] {
			if id != command.ID {
				ids = append(ids, id)
			}
		}
	case CommandConvert:
		if command.Image != nil {
			if _, refused := command.Image.find(command.From); refused {
				return nil
			}
		}
		ids = append(ids, command.From)
	}
	return ids
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
