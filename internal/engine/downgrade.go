package engine

import (
	"context"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Downgrade gives up the grant's entry for one of another tag, which has the id
// of the request and the owner of the grant's: a handoff to oneself. The new
// entry is judged as an arrival that came directly after a release, and never
// waits. The outcome is Granted, Conflict, or Lost. Conflict leaves the grant's
// entry as it is, and says that others would be in the way of the new one, or
// that the time until which the grant keeps others out has not come.
//
// k is the number of the lease's next write. A refusal writes it down: no other
// attempt with this number is executed then. A repeat finds the new entry, which
// it extends, or the number. The request's Try and Terms.Least have no effect.
func (e *Engine) Downgrade(ctx context.Context, g Grant, k int64, to Request) (Answer, error) {
	update := e.present(to.Tag, e.LeaseBy(to.Tag, to.Terms)).downgrade(e.field, "$"+e.path(g.Tag), g, k, idValue(to.ID))
	img, sent, err := e.show(ctx, forDowngrade, bson.D(g.Pin), nil, update, to)
	a := Answer{Outcome: img.downgraded(g, to), Image: img, Sent: sent}
	if err == nil && a.Outcome == Conflict {
		err = e.exhausted(img)
	}
	if a.Outcome == Lost {
		a.Gone = img == nil
		return e.lost(ctx, a, err, g.Pin, func(e Entry) bool { return g.owns(e) || withID(to.Tag, to.ID)(e) })
	}
	return a, err
}

// downgraded is the outcome of a downgrade. The image is nil if no document
// matched.
func (img *Image) downgraded(g Grant, to Request) Outcome {
	if img == nil {
		return Lost
	}
	if e, there := img.Lock.Find(to.Tag, to.ID); there && e.Held() {
		return Granted
	}
	if own, there := img.Lock.Find(g.Tag, g.ID); there && own.Held() && own.Fence == g.Fence {
		return Conflict
	}
	return Lost
}

// downgrade is the pipeline of downgrade. from is the path of the entries of the
// grant's tag, and id is the new entry's.
func (d decision) downgrade(field, from string, g Grant, k int64, id expr) bson.A {
	own := idValue(g.ID)
	refused := []expr{call("$gt", "$$own."+untilKey, d.now)}
	for _, tag := range d.order {
		if r := d.rules[d.tag][tag]; r.Kind.Arriving() != relations.Ignored {
			refused = append(refused, nth(d.survivorsOf(tag), r.Allow))
		}
	}
	refused = append(append(refused, nth("$$strange", 0)), d.exhausted()...)

	entry := newEntry{id: id, owner: "$$own." + ownerKey, seq: "$$next", fence: "$$next", since: d.now, expires: call("$add", d.now, d.held)}
	numbered := call("$mergeObjects", d.lock+"."+tagsKey, bson.D{{Key: g.Tag, Value: inPlace(from, own, bson.D{{Key: writeKey, Value: k}})}})
	judged := let(append(d.survivors(nil, own), d.unknown(), bson.E{Key: "next", Value: d.next()}),
		cond(anyOf(refused...), d.put(d.lock+"."+fenceKey, numbered), d.put("$$next", d.with(entry.document()))))
	decided := let(bson.D{{Key: "own", Value: nth(filter(from, "e", all(call("$eq", "$$e."+idKey, own), call("$eq", "$$e."+fenceKey, g.Fence))), 0)}},
		cond(not("$$own"), d.lock, cond(call("$gte", "$$own."+writeKey, k), d.lock, judged)))
	return stage(field, d.ours(cond(d.there(id), d.repeat(id), decided)))
}
