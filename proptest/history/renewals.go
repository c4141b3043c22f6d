package history

// Properties of renewals.
const (
	PropertyRenewal = "a renewal never revives what was gone"
	PropertyOver    = "a lease that its holder saw ended is never believed in again"
)

// renewals: one that matched was not sent after an image without the entry.
func (c *check) renewals() {
	for i := range c.commands {
		renewal := &c.commands[i]
		if renewal.Kind != CommandRenew || !renewal.Matched {
			continue
		}
		a := c.byToken[lease{renewal.ID, renewal.Token}]
		if a == nil {
			continue
		}
		c.Checked(PropertyRenewal, 1)
		if a.gone < c.sent(renewal) {
			c.Violated(PropertyRenewal, "document %s: %v was gone by %d, and renewed after %d", c.ID, a, a.gone/millisecond, c.sent(renewal)/millisecond)
		}
	}
	// The entry must not be seen again under its old numbers either.
	for _, a := range c.arrivals {
		c.Checked(PropertyRenewal, 1)
		for _, s := range c.sightings {
			if s.from > a.gone && s.shows(a) {
				c.Violated(PropertyRenewal, "document %s: %v was gone by %d, and is there again after %d", c.ID, a, a.gone/millisecond, s.from/millisecond)
				break
			}
		}
	}
	c.believedAgain()
}

func (c *check) believedAgain() {
	ended := map[lease]int64{}
	for _, o := range c.operations {
		if o.Return == 0 || o.Token == 0 {
			continue
		}
		key := lease{o.ID, o.Token}
		over, known := ended[key]
		switch {
		case o.Kind == Look && o.Outcome == Over:
			if !known || o.Return < over {
				ended[key] = o.Return
			}
		case o.Kind == Look && o.Outcome == Believed, o.Kind == Renew && o.Outcome == Done:
			c.Checked(PropertyOver, 1)
			if known && over < o.Call {
				c.Violated(PropertyOver, "document %s: %s %.8s (token %d) was over for its holder, and then %s: %s", c.ID, o.Tag, o.ID, o.Token, o.Kind, o.Outcome)
			}
		}
	}
}
