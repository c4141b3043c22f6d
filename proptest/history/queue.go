package history

// PropertyFIFO is counted for every grant under a tag that respects another.
const PropertyFIFO = "first come, first served where the rules say so"

// queue checks overtaking. An entry that came earlier and was granted later was
// waiting in between. The number of such entries may not exceed the relation's
// allowance.
func (c *check) queue() {
	for _, x := range c.arrivals {
		if x.Fence == 0 || !x.new() || len(c.Rules[x.Tag]) == 0 {
			continue
		}
		c.Checked(PropertyFIFO, 1)
		overtaken := map[string]int{}
		for _, y := range c.arrivals {
			if y.new() && y.Seq < x.Seq && y.Fence > x.Fence {
				overtaken[y.Tag]++
			}
		}
		if by := c.over(x.Tag, overtaken); len(by) > 0 {
			c.violated(x.held, PropertyFIFO, "%v was granted before %d of %v that came before it", x, overtaken[by[0]], by)
		}
	}
}
