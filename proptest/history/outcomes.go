package history

// Outcomes that are counted besides those of the commands.
const (
	SeenAttempts  = "attempts"
	SeenGranted   = "attempts that were granted"
	SeenContended = "attempts that met a blocking entry"
	SeenBehind    = "requests blocked by a waiting entry"
	SeenExpired   = "leases and waits that ended by expiry"
	SeenRenewLost = "renewals that were reported lost" // usually without a command: the validity had ended
	SeenUnknown   = "operations of unknown outcome"
	SeenHanded    = "locks handed over"
)

// outcomes counts what was seen, for the floors.
func (c *check) outcomes() {
	contended := map[string]bool{}
	attempted, granted := map[string]bool{}, map[string]bool{}
	for i := range c.commands {
		command := &c.commands[i]
		if command.Answered == 0 {
			continue
		}
		if outcome := command.outcome(); outcome != "" {
			c.Seen(command.Kind+": "+outcome, 1)
		}
		if command.Kind != CommandAcquire && command.Kind != CommandConfirm || command.Image == nil {
			continue
		}
		live, held, own, there := c.inTheWay(command)
		attempted[command.ID] = true
		if there && own.Fence != 0 {
			granted[command.ID] = true
			if command.Handed {
				c.Seen(SeenHanded, 1)
			}
			continue
		}
		contended[command.ID] = true
		if len(c.over(command.Tag, held)) < len(c.over(command.Tag, live)) {
			c.Seen(SeenBehind, 1)
		}
	}
	c.Seen(SeenAttempts, len(attempted))
	c.Seen(SeenGranted, len(granted))
	c.Seen(SeenContended, len(contended))
	for _, a := range c.arrivals {
		if a.absent != never && a.released > a.expires {
			c.Seen(SeenExpired, 1)
		}
	}
	for _, o := range c.operations {
		if o.Outcome == Unknown {
			c.Seen(SeenUnknown, 1)
		}
		if o.Kind == Renew && o.Outcome == Lost {
			c.Seen(SeenRenewLost, 1)
		}
	}
}

// found names, by kind, that a command has found its entry, and that it has not.
var found = map[string][2]string{
	CommandRenew:           {"renewed", Lost},
	CommandDetach:          {"detached", Lost},
	CommandTouch:           {"touched", Lost},
	CommandResume:          {Granted, Lost},
	CommandRelease:         {"released", Lost},
	CommandWrite:           {"applied", "not applied"},
	CommandWriteAndRelease: {"applied", "not applied"},
}

// outcome names an answer as the table of commands does.
func (c *Command) outcome() string {
	switch c.Kind {
	case CommandAcquire, CommandConfirm, CommandDowngrade:
		return c.decided()
	case CommandRelease:
		if c.Own != nil && c.Own.Fence == 0 {
			return "removed while waiting"
		}
	}
	names := found[c.Kind]
	return either(c.Matched, names[0], names[1])
}

// decided names the answer to a request. From is of a downgrade: it is refused where its
// own entry stays.
func (c *Command) decided() string {
	if c.Image == nil {
		return NotFound
	}
	own, there := c.Image.find(c.ID)
	_, stays := c.Image.find(c.From)
	switch {
	case there && own.Fence != 0:
		return Granted
	case there:
		return Waiting
	case c.Kind == CommandAcquire || stays:
		return Conflict
	default:
		return Lost
	}
}

func either[T any](test bool, yes, no T) T {
	if test {
		return yes
	}
	return no
}
