package engine

import (
	"time"

	"github.com/doclock/doclock/relations"
)

// decision builds the expressions for one set of rules, one tag and one field.
type decision struct {
	lock  string // "$lock"
	own   string // "$lock.tags.read"
	tag   string
	rules relations.Rules
	order []string // the known tags, sorted
	now   expr
	held  int64 // milliseconds that a held entry is kept: TTL + tolerance
	wait  int64 // the same for a waiting one
	until int64 // milliseconds after the grant that others are kept out; 0 is none
}

// decisions are the engine's decisions by tag, without the times that an acquire
// may choose.
func (e *Engine) decisions(now expr) map[string]decision {
	order := e.rules.Tags()
	all := make(map[string]decision, len(order))
	for _, tag := range order {
		all[tag] = decision{
			lock:  "$" + e.field,
			own:   "$" + e.path(tag),
			tag:   tag,
			rules: e.rules,
			order: order,
			now:   now,
			wait:  (e.Wait(tag) + e.Tolerance).Milliseconds(),
		}
	}
	return all
}

// serverTime is the server's time, in a command that is made without a template.
func (e *Engine) serverTime() expr {
	if e.Now == nil {
		return "$$NOW"
	}
	return e.Now()
}

// present is the decision of a command that is sent too rarely to need a
// template. It extends a held entry by that TTL.
func (e *Engine) present(tag string, ttl time.Duration) decision {
	d := e.tags[tag].decision
	d.held = (ttl + e.Tolerance).Milliseconds()
	d.now = e.serverTime()
	return d
}
