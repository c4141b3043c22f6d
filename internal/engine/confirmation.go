package engine

import (
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// confirmation is the pipeline of confirm. Live entries count if they are held
// or came earlier. Cooperative relations count too, because an entry that
// ignores the waiting one may have come in the meantime. Without an own entry
// the pipeline changes nothing: a pruned waiter must not rejoin silently as the
// last one.
func (d decision) confirmation(field string, id expr) bson.A {
	counts := func(e string) expr {
		return call("$or", e+"."+fenceKey, call("$lt", e+"."+seqKey, "$$own."+seqKey))
	}
	var blocked []expr
	for _, tag := range d.order {
		if r := d.rules[d.tag][tag]; r.Kind.Waiting() != relations.Ignored {
			blocked = append(blocked, nth(filter(d.survivorsOf(tag), "e", counts("$$e")), r.Allow))
		}
	}
	blocked = append(blocked, nth(filter("$$strange", "t", nth(filter("$$t.v", "e", counts("$$e")), 0)), 0))

	asBefore := call("$or", "$$waits", "$$own."+fenceKey) // it waits on, or is a repeat
	granted := cond(asBefore, d.lock+"."+fenceKey, "$$next")
	var lease expr = d.held
	if d.granting() != d.held {
		lease = cond("$$own."+fenceKey, d.held, d.granting())
	}
	changed := bson.D{
		{Key: fenceKey, Value: cond("$$waits", "$$REMOVE", orElse("$$own."+fenceKey, "$$next"))},
		{Key: expiresKey, Value: d.extended("$$own", cond("$$waits", d.wait, lease))},
	}
	if d.until > 0 {
		changed = append(changed, bson.E{Key: untilKey, Value: cond(asBefore, "$$REMOVE", d.keptOut())})
	}
	entry := call("$mergeObjects", "$$own", changed)
	confirmed := d.put(granted, call("$mergeObjects", call("$arrayToObject", "$$strange"), d.with(entry)))
	judged := let(bson.D{{Key: "waits", Value: all(not("$$own."+fenceKey), anyOf(blocked...))}},
		cond(all(not(asBefore), anyOf(d.exhausted()...)), d.lock, confirmed))

	own := nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0)
	return stage(field, d.ours(
		let(append(d.survivors(nil, id), d.unknown(), bson.E{Key: "next", Value: d.next()}, bson.E{Key: "own", Value: own}),
			cond(not("$$own"), d.lock, judged))))
}
