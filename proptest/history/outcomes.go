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
		if outcome := c.outcome(command); outcome != "" {
			c.Seen(command.Kind+": "+outcome, 1)
		}
		if command.Kind != CommandAcquire && command.Kind != CommandConfirm || command.Image == nil {
			continue
		}
		live, own, there := c.inTheWay(command)
		attempted[command.ID] = true
		if there && own.Fence != 0 {
			granted[command.ID] = true
			if command.Handed {
				c.Seen(SeenHanded, 1)
			}
			continue
		}
		contended[command.ID] = true
		for tag, entries := range live {
			r, respects := c.Rules[command.Tag][tag]
			held := 0
			for _, e := range entries {
				if e.Fence != 0 {
					held++
				}
			}
			if respects && len(entries) > r.Allow && held <= r.Allow {
				c.Seen(SeenBehind, 1)
				break
			}
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

// outcome names an answer as the table of commands does.
func (c *check) outcome(command *Command) string {
	switch command.Kind {
	case CommandAcquire, CommandConfirm:
		if command.Image == nil {
			return NotFound
		}
		own, there := command.Image.find(command.ID)
		switch {
		case there && own.Fence != 0:
			return Granted
		case there:
			return Waiting
		case command.Kind == CommandConfirm:
			return Lost
		default:
			return Conflict
		}
	case CommandRenew:
		return either(command.Matched, "renewed", Lost)
	case CommandDetach:
		return either(command.Matched, "detached", Lost)
	case CommandTouch:
		return either(command.Matched, "touched", Lost)
	case CommandResume:
		return either(command.Matched, Granted, Lost)
	case CommandDowngrade:
		return c.downgraded(command)
	case CommandRelease:
		if command.Fence != 0 { // in a handoff
			return either(command.Matched, "released", Lost)
		}
		return either(command.Own != nil && command.Own.Fence != 0, "released", either(command.Own != nil, "removed while waiting", Lost))
	case CommandWrite, CommandWriteAndRelease:
		return either(command.Matched, "applied", "not applied")
	default:
		return ""
	}
}

func either[T any](test bool, yes, no T) T {
	if test {
		return yes
	}
	return no
}

func (c *check) downgraded(command *Command) string {
	if command.Image == nil {
		return Lost
	}
	if _, there := command.Image.find(command.ID); there {
		return Granted
	}
	_, refused := command.Image.find(command.From)
	return either(refused, Conflict, Lost)
}
