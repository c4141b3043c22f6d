package engine

import "github.com/doclock/doclock/relations"

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
}

// decision is the engine's decision for a tag.
func (e *Engine) decision(tag string, now expr) decision {
	d := decision{
		lock:  "$" + e.field,
		own:   "$" + e.path(tag),
		tag:   tag,
		rules: e.rules,
		order: e.rules.Tags(),
		place: map[string]int{},
		now:   now,
		held:  (e.Lease(tag) + e.Tolerance).Milliseconds(),
		wait:  (e.Wait(tag) + e.Tolerance).Milliseconds(),
	}
	for i, tag := range d.order {
		d.place[tag] = i
	}
	return d
}

// present is the decision of a command that is sent too rarely to need a
// template.
func (e *Engine) present(tag string) decision {
	if e.Now == nil {
		return e.decision(tag, "$$NOW")
	}
	return e.decision(tag, e.Now())
}
