package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/event"
)

// command is what a Locker's client has sent.
type command struct {
	name      string // "findAndModify", "update", "find", …
	kind      string // of package history, of a findAndModify's first effect
	program   *program
	call      *call // whose context it had, or nil: it was sent in the background
	order     int
	sent      time.Time
	answered  time.Time // zero until then
	failed    bool
	forbidden bool // and certainly not executed
	document  string
	ids       []string // that it names
	removes   []string // that it releases, or removes
}

// monitor records what a program's client sends.
func (s *run) monitor(p *program) *event.CommandMonitor {
	flying := map[int64]*command{}
	return &event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			if e.DatabaseName == "admin" { // the driver's own, and the questions what kind of server it is
				return
			}
			p.strike(0)
			c := &command{name: e.CommandName, program: p, sent: time.Now(), ids: history.IDs(e.Command)}
			effects := history.ReadCommand(e.Command)
			switch {
			case len(effects) > 0:
				c.kind, c.document = effects[0].Kind, effects[0].Document
			case c.name == "update": // which makes a missing document
				c.document, _ = e.Command.Lookup("updates", "0", "q", "_id").StringValueOK()
			default:
				c.document, _ = e.Command.Lookup("filter", "_id").StringValueOK()
			}
			for _, effect := range effects {
				if effect.Kind == history.CommandRelease {
					c.removes = append(c.removes, effect.ID)
				}
			}
			c.call, _ = ctx.Value(callKey{}).(*call)
			s.mu.Lock()
			defer s.mu.Unlock()
			c.order = s.tick()
			s.commands = append(s.commands, c)
			flying[e.RequestID] = c
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			s.answer(flying, e.RequestID, false)
			p.strike(1)
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			if c := s.answer(flying, e.RequestID, true); c != nil {
				c.forbidden = strings.Contains(e.Failure.Error(), forbidden)
			}
			p.strike(1)
		},
	}
}

// answer records a reply, or that there is none.
func (s *run) answer(flying map[int64]*command, request int64, failed bool) *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := flying[request]
	if c == nil { // a ping
		return nil
	}
	delete(flying, request)
	c.answered, c.failed = time.Now(), failed
	if failed {
		for _, id := range c.ids {
			s.late[id] = true
		}
	}
	return c
}

// names reports whether the command names the lease.
func (c *command) names(id string) bool { return slices.Contains(c.ids, id) }
