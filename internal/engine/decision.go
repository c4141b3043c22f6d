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
	order []string       // the known tags, sorted
	place map[string]int // of a tag in it
	now   expr
	held  int64 // milliseconds that a held entry is kept: TTL + tolerance
	wait  int64 // the same for a waiting one
	until int64 // milliseconds after the grant that others are kept out; 0 is none
}

// decision is the engine's decision for a tag, without the times that an acquire
// may choose.
func (e *Engine) decision(tag string, now expr) decision {
	d := decision{
		lock:  "$" + e.field,
		own:   "$" + e.path(tag),
		tag:   tag,
		rules: e.rules,
		order: e.rules.Tags(),
		place: map[string]int{},
		now:   now,
		wait:  (e.Wait(tag) + e.Tolerance).Milliseconds(),
	}
	for i, tag := range d.order {
		d.place[tag] = i
	}
	return d
}

// present is the decision of a command that is sent too rarely to need a
// template. It extends a held entry by that TTL.
func (e *Engine) present(tag string, ttl time.Duration) decision {
	d := e.tags[tag].decision
	d.held = (ttl + e.Tolerance).Milliseconds()
	if e.Now != nil {
		d.now = e.Now()
	}
	return d
}
