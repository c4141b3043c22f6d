package history

// PropertyRelease is counted for every entry and every image without it.
const PropertyRelease = "an entry leaves by its own release or by expiry alone"

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
}
