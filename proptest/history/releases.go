package history

// Properties of releases.
const (
	PropertyRelease = "an entry leaves by its own release or by expiry alone" // counted for every entry and every image without it
	PropertyGone    = "an entry is gone after a release that was told as done or lost"
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

// gone checks what callers were told of an entry that they don't share.
func (c *check) gone() {
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
