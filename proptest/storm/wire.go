package storm

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
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
	matched   bool // a findAndModify found a document; an update matched all
	document  string
	ids       []string // that it names
	removes   []string // that it releases, or removes
	found     []string // ids in the reply
	several   int      // statements of an update
}

// monitor records what a program's client sends.
func (s *storm) monitor(p *program) *event.CommandMonitor {
	flying := map[int64]*command{}
	return &event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "ping" {
				return
			}
			c := &command{name: e.CommandName, program: p, sent: time.Now(), ids: idsIn(e.Command)}
			effects := history.ReadCommand(e.Command)
			if len(effects) > 0 {
				c.kind = effects[0].Kind
			}
			for _, effect := range effects {
				if effect.Kind == history.CommandRelease {
					c.removes = append(c.removes, effect.ID)
				}
			}
			c.document = documentIn(e.Command)
			if statements, ok := e.Command.Lookup("updates").ArrayOK(); ok {
				values, _ := statements.Values()
				c.several = len(values)
			}
			c.call, _ = ctx.Value(callKey{}).(*call)
			s.mu.Lock()
			defer s.mu.Unlock()
			c.order = s.tick()
			s.commands = append(s.commands, c)
			flying[e.RequestID] = c
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			s.answer(flying, e.RequestID, e.Reply)
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			if c := s.answer(flying, e.RequestID, nil); c != nil {
				c.forbidden = strings.Contains(e.Failure.Error(), forbidden)
			}
		},
	}
}

// answer records a reply, or that there is none.
func (s *storm) answer(flying map[int64]*command, request int64, reply bson.Raw) *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := flying[request]
	if c == nil { // a ping
		return nil
	}
	delete(flying, request)
	c.answered, c.failed, c.found = time.Now(), reply == nil, idsIn(reply)
	if reply == nil {
		for _, id := range c.ids {
			s.late[id] = true
		}
		return c
	}
	_, c.matched = reply.Lookup("value").DocumentOK()
	if c.name == "update" {
		n, _ := reply.Lookup("n").AsInt64OK()
		c.matched = int(n) == c.several && reply.Lookup("writeErrors").IsZero()
	}
	return c
}

// names reports whether the command names the lease.
func (c *command) names(id string) bool { return slices.Contains(c.ids, id) }

// documentIn is the name of a document in a command: the first text under _id.
func documentIn(body bson.Raw) string {
	for _, key := range []string{"query", "filter"} {
		if filter, ok := body.Lookup(key).DocumentOK(); ok {
			return nameIn(filter)
		}
	}
	for _, key := range []string{"updates", "deletes", "documents"} {
		if statements, ok := body.Lookup(key).ArrayOK(); ok {
			return nameIn(bson.Raw(statements))
		}
	}
	return ""
}

func nameIn(filter bson.Raw) string {
	elements, _ := filter.Elements()
	for _, e := range elements {
		if name, ok := e.Value().StringValueOK(); ok && e.Key() == "_id" {
			return name
		}
		if part, ok := e.Value().DocumentOK(); ok {
			if name := nameIn(part); name != "" {
				return name
			}
		}
		if parts, ok := e.Value().ArrayOK(); ok {
			if name := nameIn(bson.Raw(parts)); name != "" {
				return name
			}
		}
	}
	return ""
}

// idsIn finds the ids in a message: binaries of 16 bytes and subtype 4.
func idsIn(text []byte) (ids []string) {
	header := []byte{16, 0, 0, 0, 4}
	for {
		i := bytes.Index(text, header)
		if i < 0 || len(text) < i+21 {
			return ids
		}
		if id := hex.EncodeToString(text[i+5 : i+21]); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		text = text[i+21:]
	}
}
