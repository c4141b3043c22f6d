package history

// Properties of renewals.
const (
	PropertyRenewal = "a renewal never revives an absent entry"
	PropertyOver    = "a lease whose holder saw its end is never valid again"
)

// renewals checks that a renewal that matched was not sent after an image
// without the entry. A deposed member answers one that changes nothing.
func (c *check) renewals() {
	for i := range c.commands {
		renewal := &c.commands[i]
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

func (c *check) validAgain() {
	ended := map[lease]int64{}
	for _, o := range c.operations {
		if o.Return == 0 || o.Fence == 0 {
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
