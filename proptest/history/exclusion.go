package history

import "slices"

// The names of the properties, as the summary shows them.
const (
	PropertyExclusion = "no two holders exclude each other: over [grant, min(expiry, release)) on the server's clock"
	PropertyImage     = "no image shows two holders that exclude each other"
	PropertyBarrier   = "a waiting entry blocks later entries that respect it"
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
			if x.Fence == 0 || !c.cameNew(x) {
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
				if before || y.Seq < x.Seq {
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

// cameNew reports whether the entry is not one that took an earlier one's place:
// its fence doesn't say when it was let in.
func (c *check) cameNew(e Entry) bool {
	for _, a := range c.byID[e.ID] {
		if a.is(e) {
			return a.new()
		}
	}
	return true
}
