package history

import (
	"cmp"
	"slices"
)

// The names of the properties, as the summary shows them.
const (
	PropertyExclusion = "no two holders exclude each other: over [grant, min(expiry, release)) on the server's clock"
	PropertyImage     = "no image shows two holders that exclude each other"
	PropertyBarrier   = "a waiting entry blocks later entries that respect it, but no conversion or take-over"
	PropertyNumbers   = "an image's values agree: seq and fence of its entries are at most lock.fence, and a held entry's fence is not below its seq"
)

// exclusion looks at the latest instant at which a lease had begun.
func (c *check) exclusion() {
	for _, x := range c.arrivals {
		if x.held == never || !x.new() {
			continue // nobody was let in
		}
		c.Checked(PropertyExclusion, 1)
		if beside, by := c.excludes(x); len(by) > 0 {
			last := beside[len(beside)-1]
			c.violated(x.held, PropertyExclusion, "%v was granted by %d while %d of %v held, among them %v until %d at the least", x, x.held/millisecond, len(beside), by, last, last.end()/millisecond)
		}
	}
}

// excludes lists the leases that exclude x, with their tags: they were granted before,
// and were certainly still held when x had begun.
func (c *check) excludes(x *arrival) (beside []*arrival, by []string) {
	held := map[string]int{}
	counted := map[int64]bool{} // a lease and its remainder count once
	for _, y := range c.arrivals {
		_, respects := c.Rules[x.Tag][y.Tag]
		if respects && y.held != never && y.Fence < x.Fence && y.end() > x.held && !counted[y.Seq] {
			beside, counted[y.Seq] = append(beside, y), true
			held[y.Tag]++
		}
	}
	by = c.over(x.Tag, held)
	return slices.DeleteFunc(beside, func(y *arrival) bool { return !slices.Contains(by, y.Tag) }), by
}

// images checks each image by itself. Presence is continuous. An entry beside a
// later fence was present when that fence was granted, because an id that comes
// back has new values. So no clock is needed.
func (c *check) images() {
	for _, s := range c.sightings {
		c.Checked(PropertyNumbers, 1)
		for _, e := range s.Entries {
			if e.Seq > s.Fence || e.Fence > s.Fence || e.Fence != 0 && e.Fence < e.Seq || e.Seq == 0 {
				c.violated(s.to, PropertyNumbers, "lock.fence %d, entry %s %.8s has seq %d and fence %d", s.Fence, e.Tag, e.ID, e.Seq, e.Fence)
			}
		}
		for _, x := range s.Entries {
			came := c.arrival(x)
			if x.Fence == 0 || came != nil && !came.new() { // its fence doesn't say when it was let in
				continue
			}
			c.Checked(PropertyImage, 1)
			c.Checked(PropertyBarrier, 1)
			held, earlier := map[string]int{}, map[string]int{}
			for _, y := range s.Entries {
				if y.ID == x.ID && y.Seq == x.Seq {
					continue
				}
				before := y.Fence != 0 && y.Fence < x.Fence
				if before {
					held[y.Tag]++
				}
				if before || y.Seq < x.Seq && (came == nil || !came.passes) {
					earlier[y.Tag]++
				}
			}
			if by := c.over(x.Tag, held); len(by) > 0 {
				c.violated(s.to, PropertyImage, "at %d: %s %.8s (fence %d) holds beside %d of %v", s.Now, x.Tag, x.ID, x.Fence, held[by[0]], by)
			} else if by := c.over(x.Tag, earlier); len(by) > 0 {
				c.violated(s.to, PropertyBarrier, "at %d: %s %.8s (seq %d) holds past %d of %v that came before", s.Now, x.Tag, x.ID, x.Seq, earlier[by[0]], by)
			}
		}
	}
}

// arrival is the one of an entry, or nil.
func (c *check) arrival(e Entry) *arrival {
	for _, a := range c.byID[e.ID] {
		if a.is(e) {
			return a
		}
	}
	return nil
}

// Properties of the validity of leases.
const (
	PropertyValidity   = "a lease's validity ends before the server lets another holder in"
	PropertyValidAlone = "no lease is valid after one was granted that excludes it"
)

// validity checks every look of a holder at its lease.
func (c *check) validity() {
	for _, o := range c.operations {
		if o.Kind != Look || o.Outcome != StillValid || o.Return == 0 {
			continue
		}
		a := c.byToken[lease{o.ID, o.Fence}]
		if a == nil {
			continue // its grant was never seen: verdicts reports that
		}
		clock := c.clocks[o.Process]
		if c.broken(a) <= clock.latest(o.Return) {
			continue // and the holder doesn't know
		}
		c.Checked(PropertyValidity, 1)
		if until, kept := clock.earliest(o.Call+o.Remaining), c.keptAtMost(a, &o); until > kept {
			c.violated(clock.earliest(o.Call), PropertyValidity, "%v is valid until %d at the least, the server keeps it until %d at the most", a, until/millisecond, kept/millisecond)
		}

		c.Checked(PropertyValidAlone, 1)
		at := clock.earliest(o.Call)
		for _, x := range c.arrivals {
			if !c.later(x, a) || x.held >= at || !x.new() {
				continue
			}
			if r, respects := c.Rules[x.Tag][a.Tag]; respects && r.Allow == 0 {
				c.violated(at, PropertyValidAlone, "%v is valid at %d, %v was granted by %d", a, at/millisecond, x, x.held/millisecond)
			}
		}
	}
}

// keptAtMost is the latest time until which the server can have kept the entry
// when the holder looked. The bound comes from sightings of the entry, and from
// earlier commands. Later sightings bound it too, because an expiry never moves
// back.
func (c *check) keptAtMost(a *arrival, o *Operation) int64 {
	life := (max(cmp.Or(o.TTL, c.TTL), o.Least) + c.Tolerance) * millisecond
	kept := int64(0)
	bound := int64(never)
	clock := c.clocks[o.Process]
	looked := clock.latest(o.Return)
	for _, s := range c.sightings {
		e, there := s.find(a.ID)
		if !there || e.Fence != a.Fence {
			continue
		}
		if s.from > looked {
			bound = min(bound, e.Expires*millisecond)
		} else {
			kept = max(kept, e.Expires*millisecond)
		}
	}
	for _, command := range c.commands {
		if !c.extends(command, a) || c.sent(command) > looked {
			continue
		}
		switch {
		case command.Answered == 0:
			kept = max(kept, looked+life) // at any time: its effect came before the look, or doesn't matter to it
		case command.Matched && command.Image == nil:
			kept = max(kept, c.answered(command)+life)
		}
	}
	return min(kept, bound)
}

// extends reports whether the command may have extended the entry.
func (c *check) extends(command *Command, a *arrival) bool {
	switch command.Kind {
	case CommandRenew, CommandAcquire, CommandConfirm, CommandDetach, CommandResume, CommandConvert:
		return command.ID == a.ID
	case CommandTouch:
		return slices.Contains(c.byKey[command.Key], a.ID)
	default:
		return false
	}
}

// Properties of releases.
const (
	PropertyRelease = "an entry leaves by its own release or by expiry alone" // counted for every entry and every image without it
	PropertyGone    = "an entry is gone after a release that was told as done or lost, and that of a token after its resume or touch was told as lost"
)

// releases checks entries that are missing in an image although they had not
// expired and were not released. The latest expiry that was seen counts: an
// entry is extended only while it is present, and its expiry never moves back.
func (c *check) releases() {
	for _, a := range c.arrivals {
		if a.absent == never {
			continue
		}
		c.Checked(PropertyRelease, 1)
		if a.released > a.absent && a.expires > a.absent {
			c.violated(a.absent, PropertyRelease, "%v is absent by %d, would have lived until %d, and was not released", a, a.absent/millisecond, a.expires/millisecond)
		}
	}
	c.gone()
}

// gone checks what callers were told of an entry that they don't share, and of tokens. An
// update of an entry with an Until is followed by a release of its own. Without an
// answer to that the entry is left to expire, and a token's users may extend it: the
// update was done.
func (c *check) gone() {
	c.worthless()
	for _, o := range c.operations {
		ended := o.Outcome == Done && (o.Kind == Release || o.Kind == UpdateAndRelease) || o.Outcome == Lost && o.Kind == Release
		if !ended || o.Return == 0 || o.Fence == 0 || o.Shared {
			continue
		}
		c.Checked(PropertyGone, 1)
		for _, s := range c.sightings {
			e, there := s.find(o.ID)
			if o.Kind == UpdateAndRelease && e.Until != 0 && (e.Expires <= s.Now || e.Key != "") {
				continue
			}
			if there && e.Fence == o.Fence && s.from > c.clocks[o.Process].latest(o.Return) {
				c.violated(s.from, PropertyGone, "%s %.8s (fence %d) was told as %s by %s, and is there after %d", o.Tag, o.ID, o.Fence, o.Outcome, o.Kind, s.from/millisecond)
				break
			}
		}
	}
}

// worthless checks tokens whose users were told that the entry is gone. It had the key
// before.
func (c *check) worthless() {
	for _, o := range c.operations {
		if o.Key == "" || o.Outcome != Lost || o.Return == 0 {
			continue
		}
		c.Checked(PropertyGone, 1)
		clock, before := c.clocks[o.Process], false
		for _, s := range c.sightings { // by the time when they were known
			if !slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Key == o.Key }) {
				continue
			}
			if before && s.from > clock.latest(o.Return) {
				c.violated(s.from, PropertyGone, "the token with the key %.8s was told as lost by %s, and its entry is there after %d", o.Key, o.Kind, s.from/millisecond)
				break
			}
			before = before || s.to < clock.earliest(o.Call)
		}
	}
}

// Properties of renewals.
const (
	PropertyRenewal = "a renewal never revives an absent entry"
	PropertyOver    = "a lease whose holder saw its end is never valid again"
)

// renewals checks that a renewal that matched was not sent after an image
// without the entry. A deposed member answers one that changes nothing.
func (c *check) renewals() {
	for _, renewal := range c.commands {
		if renewal.Kind != CommandRenew || !renewal.Matched || c.apart != 0 {
			continue
		}
		a := c.byToken[lease{renewal.ID, renewal.Fence}]
		if a == nil {
			continue
		}
		c.Checked(PropertyRenewal, 1)
		if a.absent < c.sent(renewal) {
			c.violated(c.sent(renewal), PropertyRenewal, "%v was absent by %d, and renewed after %d", a, a.absent/millisecond, c.sent(renewal)/millisecond)
		}
	}
	// The entry must not be seen again with its old values either.
	for _, a := range c.arrivals {
		c.Checked(PropertyRenewal, 1)
		for _, s := range c.sightings {
			if s.from > a.absent && s.shows(a) {
				c.violated(s.from, PropertyRenewal, "%v was absent by %d, and is present again after %d", a, a.absent/millisecond, s.from/millisecond)
				break
			}
		}
	}
	c.validAgain()
}

// validAgain checks the looks of those who hold an entry alone: who shares it sees the end of his part.
func (c *check) validAgain() {
	ended := map[lease]int64{}
	for _, o := range c.operations {
		if o.Return == 0 || o.Fence == 0 || o.Shared {
			continue
		}
		key := lease{o.ID, o.Fence}
		over, known := ended[key]
		switch {
		case o.Kind == Look && o.Outcome == Over:
			if !known || o.Return < over {
				ended[key] = o.Return
			}
		case o.Kind == Look && o.Outcome == StillValid, o.Kind == Renew && o.Outcome == Done:
			c.Checked(PropertyOver, 1)
			if known && over < o.Call {
				c.violated(c.clocks[o.Process].earliest(o.Call), PropertyOver, "%s %.8s (fence %d) was over for its holder, and then %s: %s", o.Tag, o.ID, o.Fence, o.Kind, o.Outcome)
			}
		}
	}
}
