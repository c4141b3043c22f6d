package history

import (
	"cmp"
	"slices"
	"time"
)

// Properties of waiting.
const (
	PropertyReason = "no request is refused or kept waiting without a blocking entry"
	PropertyPoll   = "a waiter, or another of its wait queue, asks again no later than the lock becomes free, and the bound"
)

// liveness checks two properties. Together they let a waiter in no later than
// the expiry, its poll and the bound. exclusion and releases check that it is
// not let in earlier.
func (c *check) liveness() {
	waits, owners := c.waits(), map[string]string{}
	polls := map[string][]*Command{}  // by entry
	queues := map[string][]*Command{} // by owner: the waiters of one locker form a wait queue, and one polls for all
	for i := range c.commands {
		command := &c.commands[i]
		if command.Kind != CommandAcquire && command.Kind != CommandConfirm {
			continue
		}
		c.reason(command)
		if command.Ghost {
			continue
		}
		if command.Owner != "" {
			owners[command.ID] = command.Owner
		}
		polls[command.ID] = append(polls[command.ID], command)
	}
	for id, commands := range polls {
		queues[owners[id]] = append(queues[owners[id]], commands...)
	}
	bySent := func(a, b *Command) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Sent, b.Sent))
	}
	for _, line := range queues {
		slices.SortFunc(line, bySent)
	}
	for id, commands := range polls {
		slices.SortFunc(commands, bySent)
		for i, poll := range commands {
			if poll.Image == nil || poll.Answered == 0 || i+1 == len(commands) || !waits[id] {
				continue
			}
			if own, there := poll.Image.find(id); there && own.Fence != 0 {
				continue
			}
			c.Checked(PropertyPoll, 1)
			pause := time.Duration(c.free(poll)) * time.Millisecond
			line := queues[owners[id]]
			next, _ := slices.BinarySearchFunc(line, poll, func(a, b *Command) int {
				return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Sent, b.Answered))
			})
			if next == len(line) || line[next].Process != poll.Process {
				continue // the next one was sent before
			}
			if took := time.Duration(line[next].Sent - poll.Answered); took > pause+Bound {
				c.violated(c.answered(poll), PropertyPoll, "the waiter %s %.8s, or one that polls for it, asked again after %v, the lock could have become free after %v", poll.Tag, id, took, pause)
			}
		}
	}
}

// waits are the entries that the library waits for: those of Acquire and Wait,
// which have no polling operation of their own. A TryAcquire asks again only after an
// attempt of unknown outcome.
func (c *check) waits() map[string]bool {
	byHand := map[string]bool{}
	for _, o := range c.operations {
		switch o.Kind {
		case Enqueue, Confirm, Cancel, TryAcquire, Claim:
			byHand[o.ID] = true
		}
	}
	waits := map[string]bool{}
	for i := range c.commands {
		if id := c.commands[i].ID; !byHand[id] {
			waits[id] = true
		}
	}
	return waits
}

// inTheWay counts, by tag, the live entries that count for this command.
func (c *check) inTheWay(command *Command) (live map[string][]Entry, own Entry, there bool) {
	img := command.Image
	own, there = img.find(command.ID)
	live = map[string][]Entry{}
	for _, e := range img.Entries {
		if e.ID == command.ID || e.Expires <= img.Now {
			continue
		}
		if there && e.Fence == 0 && e.Seq > own.Seq {
			continue
		}
		live[e.Tag] = append(live[e.Tag], e)
	}
	return live, own, there
}

// reason checks that the image of a refused or waiting request shows the
// reason. A repeated acquire that finds its entry waiting is not decided again.
func (c *check) reason(command *Command) {
	if command.Image == nil || command.Image.Now == 0 {
		return
	}
	live, own, there := c.inTheWay(command)
	if there && own.Fence != 0 || command.Kind == CommandConfirm && !there {
		return
	}
	if command.Kind == CommandAcquire && there && own.Since != command.Image.Now {
		return // a repeat
	}
	c.Checked(PropertyReason, 1)
	counts := map[string]int{}
	for tag, entries := range live {
		counts[tag] = len(entries)
	}
	if len(c.over(command.Tag, counts)) == 0 {
		c.violated(c.answered(command), PropertyReason, "at %d: %s of %s %.8s was not granted, though no entry blocks it", command.Image.Now, command.Kind, command.Tag, command.ID)
	}
}

// free is the time, in milliseconds, until enough entries have expired.
func (c *check) free(command *Command) int64 {
	live, _, _ := c.inTheWay(command)
	free := int64(0)
	for tag, entries := range live {
		r, respects := c.Rules[command.Tag][tag]
		if !respects || len(entries) <= r.Allow {
			continue
		}
		slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Expires, b.Expires) })
		free = max(free, entries[len(entries)-1-r.Allow].Expires-command.Image.Now)
	}
	return free
}
