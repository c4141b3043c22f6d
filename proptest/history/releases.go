package history

// PropertyRelease is counted for every entry and every image without it.
const PropertyRelease = "an entry leaves by its own release or by expiry alone"

// releases: an entry is missing in an image though it had not expired, and
// nobody had released it. The latest expiry that was seen counts: an entry is
// extended only where it is present, and its expiry never moves back.
func (c *check) releases() {
	for _, a := range c.arrivals {
		if a.gone == never {
			continue
		}
		c.Checked(PropertyRelease, 1)
		if a.givenUp > a.gone && a.expires > a.gone {
			c.Violated(PropertyRelease, "document %s: %v is gone by %d, would have lived until %d, and nobody released it",
				c.ID, a, a.gone/millisecond, a.expires/millisecond)
		}
	}
}
