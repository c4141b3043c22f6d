package engine

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Resume gives the token's entry, in the document that the filter pins, to a new
// handle, which has the id of the request: the entry gets that id, the next fencing
// token, and the owner of the request's terms, if they have one. It loses its number.
// It finds an entry that has expired: nobody was let in while it was present. A repeat
// finds its id, whatever else the filter demands, and extends the entry.
//
// The outcome is Granted; Lost, if the document is there without the entry; or
// NotFound, which says nothing of the token.
//
// An entry that still has a handle keeps others out until that one's expiry,
// whatever the new handle does: until then the earlier handle's lease may count
// as valid.
func (e *Engine) Resume(ctx context.Context, f Filter, k Token, r Request) (Answer, error) {
	query := e.keyed(f, k)
	if !f.Exact {
		again := field(e.path(k.Tag)+"."+idKey, idValue(r.ID))
		query = append(query, bson.E{Key: "$or", Value: bson.A{f.doc, again}})
	}
	update := e.present(k.Tag, e.LeaseBy(r.Tag, r.Terms)).resumption(e.field, idValue(k.Key), idValue(r.ID), r.Terms.Owner)
	img, sent, err := e.show(ctx, forResume, query, nil, update, r)
	a, err := e.answer(img, err, sent, r, Lost, Conflict)
	if a.Outcome != Granted {
		return e.unresumed(ctx, a, err, f, k, query)
	}
	return a, err
}

// Touch extends the token's entry, in the document that the filter pins, to a TTL from
// now, and gives it to nobody. The outcome is Renewed, or as that of a Resume.
func (e *Engine) Touch(ctx context.Context, f Filter, k Token, ttl time.Duration) (Answer, error) {
	query := e.keyed(f, k)
	if !f.Exact {
		query = append(query, bson.E{Key: "$and", Value: bson.A{f.doc}})
	}
	d := e.present(k.Tag, ttl)
	entries := inPlaceBy(tokenKey, d.own, idValue(k.Key), bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}})
	img, sent, err := e.send(ctx, change{comment: forTouch, query: query, update: stage(e.path(k.Tag), entries)})
	a := Answer{Outcome: Renewed, Sent: sent}
	if img == nil {
		return e.unresumed(ctx, a, err, f, k, query)
	}
	return a, err
}

// unresumed is the answer of a resume or a touch that has matched nothing, after a read
// of the document. If the entry is there, either the filter demands more than the
// document has, or the server that answered did not know it.
func (e *Engine) unresumed(ctx context.Context, a Answer, err error, f Filter, k Token, query bson.D) (Answer, error) {
	a.Outcome = Lost
	if err != nil {
		return a, err
	}
	img, err := e.Read(ctx, f.Pin)
	switch {
	case img == nil && err != nil:
		return a, unproven(err)
	case img == nil:
		a.Outcome, a.Gone = NotFound, true
		return a, nil
	case !slices.ContainsFunc(e.allEntries(img.raw), k.matches):
		a.Image = img
		return a, nil
	case f.Exact:
		return a, race("the server that answered is no longer the primary")
	default:
		return Answer{Outcome: NotFound, Sent: a.Sent}, e.absent(ctx, query)
	}
}

// matches says that an entry is the token's: that keyed matches it.
func (k Token) matches(e Entry) bool { return e.Tag == k.Tag && e.Key == k.Key && e.Held() }

// keyed is the filter that matches while the token's entry is in the pinned document.
func (e *Engine) keyed(f Filter, k Token) bson.D {
	entry := bson.D{{Key: tokenKey, Value: idValue(k.Key)}, {Key: fenceKey, Value: bson.D{{Key: "$gt", Value: 0}}}}
	return f.Pin.and(bson.E{Key: e.path(k.Tag), Value: value(bson.D{{Key: "$elemMatch", Value: entry}})})
}

// resumption is the pipeline of resume. The filter has checked that an entry
// has the key.
func (d decision) resumption(field string, key, id expr, owner string) bson.A {
	resumed := inherited()
	resumed.id, resumed.fence = id, "$$next"
	if owner != "" {
		resumed.owner = call("$literal", owner)
	}
	resumed.expires, resumed.key = d.extended("$$e", d.held), key
	resumed.until = cond("$$e."+detachedKey,
		orElse("$$e."+untilKey, "$$REMOVE"),
		call("$max", args{"$$e." + untilKey, "$$e." + expiresKey}))
	changed := d.change("$$next", mapped(d.own, "e", cond(call("$eq", "$$e."+tokenKey, key), resumed.document(), "$$e")))
	takeover := let(bson.D{{Key: "next", Value: d.next()}}, cond(anyOf(d.exhausted()...), d.lock, changed))
	return stage(field, d.ours(cond(d.there(id), d.repeat(id), takeover)))
}

// repeat extends the entry that an earlier attempt has made.
func (d decision) repeat(id expr) bson.D {
	return d.change(d.lock+"."+fenceKey, inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}}))
}

// change builds the lock with other entries of the own tag.
func (d decision) change(fence, entries expr) bson.D {
	return d.put(fence, call("$mergeObjects", d.lock+"."+tagsKey, bson.D{{Key: d.tag, Value: entries}}))
}
