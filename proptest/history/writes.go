package history

import (
	"strconv"
	"strings"
)

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
