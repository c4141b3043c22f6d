package history

import (
	"slices"
	"strconv"
	"strings"
)

// Properties of the callers' results.
const (
	PropertyGrant   = "a returned lease was granted by the server, with this fence"
	PropertyVerdict = "a successful release, write or detach means that no other holder was let in and nobody had resumed the lease, " +
		"a lost release that the entry was absent, a failed release that nobody else was let in until its return"
)

func (c *check) verdicts() {
	removed := map[lease]bool{} // by a release that found it
	for _, command := range c.commands {
		switch {
		case command.Kind != CommandRelease || !command.Matched:
		case command.Fence != 0: // in a handoff
			removed[lease{command.ID, command.Fence}] = true
		case command.Own != nil && command.Own.Fence != 0:
			removed[lease{command.ID, command.Own.Fence}] = true
		}
	}
	for _, o := range c.operations {
		if o.Return == 0 || o.Fence == 0 {
			continue
		}
		key := lease{o.ID, o.Fence}
		a := c.byToken[key]
		switch o.Kind {
		case TryAcquire, Acquire, Enqueue, Confirm, Wait, Claim, Resume, Convert:
			if o.Outcome != Granted {
				continue
			}
			c.Checked(PropertyGrant, 1)
			if a == nil || a.Tag != o.Tag {
				c.violated(c.clocks[o.Process].earliest(o.Call), PropertyGrant, "%s returned %s %.8s with fence %d, which no image shows", o.Kind, o.Tag, o.ID, o.Fence)
			}
		case Release, UpdateAndRelease, Update, Detach:
			if a == nil {
				continue
			}
			c.Checked(PropertyVerdict, 1)
			if o.Outcome == Lost && removed[key] && o.Kind == Release {
				c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict, "Release of %v was lost, though the server found it", a)
			}
			if o.Outcome == Done && o.Kind == Release && !o.Shared && o.Least == 0 && c.wasBroken(a, o) {
				c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict, "Release of %v: done, though a break or a take-over had ended it", a)
			}
			until := c.clocks[o.Process].earliest(o.Call)
			own, others := c.releasesOf(a, o.Process)
			switch {
			case others != never && o.Kind == Release:
				continue // the lock was broken; a holder whose replies are lost can't know
			case (o.Outcome == Failed || o.Outcome == Done) && o.Kind == Release:
				until = min(c.clocks[o.Process].earliest(o.Return), own)
			case o.Outcome != Done:
				continue
			}
			for _, x := range c.arrivals {
				if !c.later(x, a) || x.held >= until {
					continue
				}
				if x.resumed && x.Seq == a.Seq && o.Outcome == Done && !(o.Kind == Release && c.broken(x) != never) { // a release that was refused has not looked
					c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict,
						"%s of %v: %s, though its entry had been resumed by %d as %v, before %d", o.Kind, a, o.Outcome, x.held/millisecond, x, until/millisecond)
				}
				if x.new() {
					if r, respects := c.Rules[x.Tag][a.Tag]; respects && r.Allow == 0 {
						c.violated(c.clocks[o.Process].earliest(o.Call), PropertyVerdict, "%s of %v: %s, though %v had been granted by %d, before %d", o.Kind, a, o.Outcome, x, x.held/millisecond, until/millisecond)
					}
				}
			}
		}
	}
}

// wasBroken says that an image shows that a break or a take-over has ended the lease itself, and that nothing may have
// deleted the document since: a lock that is made anew has no trace. What its release may have left has the same fence.
func (c *check) wasBroken(a *arrival, o Operation) bool {
	return a.Until == 0 && slices.ContainsFunc(c.sightings, func(s sighting) bool {
		return s.Broken == a.Fence && !slices.ContainsFunc(c.commands, func(d *Command) bool {
			return d.Kind == CommandDelete && c.ends(d, a) && c.answered(d) >= s.from && c.sent(d) <= c.clocks[o.Process].latest(o.Return)
		})
	})
}

// broken is the earliest time at which an operator may have removed the entry, also
// under the id of a later user of its token, or of what a user's release has left. An
// earlier user can't know: no trace is left for a release that has lost a reply, and
// its lease ends with its next command.
func (c *check) broken(a *arrival) int64 {
	at := int64(never)
	for _, x := range c.arrivals {
		if x.Seq != a.Seq || x.Fence < a.Fence {
			continue
		}
		process := nobody
		if i := slices.IndexFunc(c.commands, func(of *Command) bool { return of.ID == x.ID && of.asks() }); i >= 0 {
			process = c.commands[i].Process
		} else if !x.remainder {
			continue
		}
		_, others := c.releasesOf(x, process)
		at = min(at, others)
	}
	return at
}

// nobody is the process of a remainder.
const nobody = -1

// releasesOf are the earliest times at which the holder, and an operator or another
// holder who has taken the lock over or deleted the document, may have removed the entry.
func (c *check) releasesOf(a *arrival, process int) (own, others int64) {
	own, others = never, never
	for _, command := range c.commands {
		switch {
		case command.Kind == CommandDelete && command.ID != a.ID, command.takes(a): // by another holder
			others = min(others, c.sent(command))
		case command.ID != a.ID || command.Fence != 0 && command.Fence != a.Fence:
		case command.Kind != CommandRelease && command.Kind != CommandWriteAndRelease && command.Kind != CommandDelete:
		case command.Process == process:
			own = min(own, c.sent(command))
		default:
			others = min(others, c.sent(command))
		}
	}
	return own, others
}

// Properties of guarded writes.
const (
	PropertyOnce    = "a guarded write is applied at most once, and its verdict is true"
	PropertyGuarded = "no write is applied after a grant that excludes its lease"
)

// writes checks the document's log, which has the writes in the order of their
// application.
func (c *check) writes() {
	if c.Deleted {
		return
	}
	applied := map[string]int{}
	for _, entry := range c.Log {
		_, name, _ := strings.Cut(entry, "/")
		applied[name]++
	}
	for _, o := range c.operations {
		if o.Write == "" {
			continue
		}
		n := applied[o.Write]
		c.Checked(PropertyOnce, 1)
		switch {
		case n > 1:
			c.violated(c.clocks[o.Process].earliest(o.Call), PropertyOnce, "%s %s under fence %d was applied %d times", o.Kind, o.Write, o.Fence, n)
		case n == 0 && o.Outcome == Done:
			c.violated(c.clocks[o.Process].earliest(o.Call), PropertyOnce, "%s %s under fence %d was reported applied, and was not", o.Kind, o.Write, o.Fence)
		case n == 1 && (o.Outcome == Lost || o.Outcome == Released || o.Outcome == Failed):
			c.violated(c.clocks[o.Process].earliest(o.Call), PropertyOnce, "%s %s under fence %d was reported %s, and was applied", o.Kind, o.Write, o.Fence, o.Outcome)
		}
	}
	// A write of a later fence comes first: the earlier lease had ended by
	// then, if the later one respects it.
	var began []*arrival // the leases that have written, in the order of their first write
	late := map[*arrival]map[*arrival]bool{}
	for _, entry := range c.Log {
		number, name, _ := strings.Cut(entry, "/")
		fence, _ := strconv.ParseInt(number, 10, 64)
		a := c.withFence(fence)
		if a == nil {
			continue
		}
		c.Checked(PropertyGuarded, 1)
		written := false
		for _, x := range began {
			if x == a {
				written = true
			}
			if x.Fence <= a.Fence {
				continue
			}
			if x.resumed {
				if x.Seq == a.Seq {
					c.violated(a.held, PropertyGuarded, "%s of %v was applied after a write of %v, which had resumed it", name, a, x)
				}
				continue // its fence doesn't say when it was let in
			}
			if late[x] == nil {
				late[x] = map[*arrival]bool{}
			}
			late[x][a] = true
			beside := map[string]int{}
			for y := range late[x] {
				beside[y.Tag]++
			}
			if by := c.over(x.Tag, beside); len(by) > 0 && beside[a.Tag] > 0 {
				c.violated(a.held, PropertyGuarded, "%s of %v was applied after a write of %v", name, a, x)
			}
		}
		if !written {
			began = append(began, a)
		}
	}
}

func (c *check) withFence(fence int64) *arrival {
	for key, a := range c.byToken {
		if key.fence == fence && !a.remainder {
			return a
		}
	}
	return nil
}

// Outcomes that are counted besides those of the commands.
const (
	SeenAttempts  = "attempts"
	SeenGranted   = "attempts that were granted"
	SeenContended = "attempts that met a blocking entry"
	SeenBehind    = "requests blocked by a waiting entry"
	SeenExpired   = "leases and waits that ended by expiry"
	SeenRenewLost = "renewals that were reported lost" // usually without a command: the validity had ended
	SeenUnknown   = "operations of unknown outcome"
	SeenHanded    = "locks handed over"
)

// outcomes counts what was seen, for the floors.
func (c *check) outcomes() {
	contended := map[string]bool{}
	attempted, granted := map[string]bool{}, map[string]bool{}
	for _, command := range c.commands {
		if command.Answered == 0 {
			continue
		}
		if outcome := command.outcome(); outcome != "" {
			c.Seen(either(command.Named != nil, "take-over", command.Kind)+": "+outcome, 1)
		}
		if command.Kind != CommandAcquire && command.Kind != CommandConfirm || command.Image == nil {
			continue
		}
		live, held, own, there := c.inTheWay(command)
		attempted[command.ID] = true
		if there && own.Fence != 0 {
			granted[command.ID] = true
			if command.Handed {
				c.Seen(SeenHanded, 1)
			}
			continue
		}
		contended[command.ID] = true
		if len(c.over(command.Tag, held)) < len(c.over(command.Tag, live)) {
			c.Seen(SeenBehind, 1)
		}
	}
	c.Seen(SeenAttempts, len(attempted))
	c.Seen(SeenGranted, len(granted))
	c.Seen(SeenContended, len(contended))
	for _, a := range c.arrivals {
		if a.absent != never && a.released > a.expires {
			c.Seen(SeenExpired, 1)
		}
	}
	for _, o := range c.operations {
		if o.Outcome == Unknown {
			c.Seen(SeenUnknown, 1)
		}
		if o.Kind == Renew && o.Outcome == Lost {
			c.Seen(SeenRenewLost, 1)
		}
	}
}

// found names, by kind, that a command has found its entry, and that it has not.
var found = map[string][2]string{
	CommandRenew:           {"renewed", Lost},
	CommandDetach:          {"detached", Lost},
	CommandTouch:           {"touched", Lost},
	CommandResume:          {Granted, Lost},
	CommandRelease:         {"released", Lost},
	CommandWrite:           {"applied", "not applied"},
	CommandWriteAndRelease: {"applied", "not applied"},
}

// outcome names an answer as the table of commands does.
func (c *Command) outcome() string {
	switch c.Kind {
	case CommandAcquire, CommandConfirm, CommandConvert:
		return c.decided()
	case CommandRelease:
		if c.Own != nil && c.Own.Fence == 0 {
			return "removed while waiting"
		}
	}
	names := found[c.Kind]
	return either(c.Matched, names[0], names[1])
}

// decided names the answer to a request. From is of a conversion: it is refused where its
// own entry stays.
func (c *Command) decided() string {
	if c.Image == nil {
		return NotFound
	}
	own, there := c.Image.find(c.ID)
	_, stays := c.Image.find(c.From)
	switch {
	case there && own.Fence != 0:
		return Granted
	case there:
		return Waiting
	case c.Kind == CommandAcquire || stays:
		return Conflict
	default:
		return Lost
	}
}

func either[T any](test bool, yes, no T) T {
	if test {
		return yes
	}
	return no
}
