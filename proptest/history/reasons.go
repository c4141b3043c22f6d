package history

// PropertyReason is about waits. exclusion and releases check that a waiter is not
// let in earlier, and package waitqueue's tests that it asks again in time.
const PropertyReason = "no request is refused or kept waiting without a blocking entry"

// reasons checks that the image of each refused or waiting request shows the reason.
func (c *check) reasons() {
	for i := range c.commands {
		command := &c.commands[i]
		asks := command.Kind == CommandAcquire || command.Kind == CommandConfirm
		if asks && command.Image != nil && command.Image.Now != 0 {
			c.reason(command)
		}
	}
}

// reason checks one image. A repeated acquire that finds its entry waiting is not
// decided again.
func (c *check) reason(command *Command) {
	live, _, own, there := c.inTheWay(command)
	if there && own.Fence != 0 || command.Kind == CommandConfirm && !there {
		return
	}
	if command.Kind == CommandAcquire && there && own.Since != command.Image.Now {
		return // a repeat
	}
	c.Checked(PropertyReason, 1)
	if len(c.over(command.Tag, live)) == 0 {
		c.violated(c.answered(command), PropertyReason, "at %d: %s of %s %.8s was not granted, though no entry blocks it", command.Image.Now, command.Kind, command.Tag, command.ID)
	}
}

// inTheWay counts, by tag, the live entries that count for this command, and those of
// them that are held.
func (c *check) inTheWay(command *Command) (live, held map[string]int, own Entry, there bool) {
	own, there = command.Image.find(command.ID)
	live, held = map[string]int{}, map[string]int{}
	for _, e := range command.Image.Entries {
		later := there && e.Fence == 0 && e.Seq > own.Seq
		if e.ID == command.ID || e.Expires <= command.Image.Now || later {
			continue
		}
		live[e.Tag]++
		if e.Fence != 0 {
			held[e.Tag]++
		}
	}
	return live, held, own, there
}
