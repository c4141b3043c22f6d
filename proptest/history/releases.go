package history

import "slices"

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

// gone checks what callers were told of an entry that they don't share, and of tokens.
func (c *check) gone() {
	c.worthless()
	for _, o := range c.operations {
		ended := o.Outcome == Done && (o.Kind == Release || o.Kind == UpdateAndRelease) || o.Outcome == Lost && o.Kind == Release
		if !ended || o.Return == 0 || o.Fence == 0 || o.Shared {
			continue
		}
		c.Checked(PropertyGone, 1)
		for _, s := range c.sightings {
			if e, there := s.find(o.ID); there && e.Fence == o.Fence && s.from > c.clocks[o.Process].latest(o.Return) {
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
