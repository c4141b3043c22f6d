package engine

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Resume gives the token's entry to a new handle, which has the id of the
// request: the entry gets that id, the owner and the next fencing token, and
// loses its number. The outcome is Granted, or Lost. It finds an
// entry that has expired: nobody was let in while it was present. A repeat finds
// its id, and extends the entry.
//
// An entry that still has a handle keeps others out until that one's expiry,
// whatever the new handle does: until then the earlier handle's lease may count
// as valid.
func (e *Engine) Resume(ctx context.Context, k Token, r Request) (Answer, error) {
	update := e.present(k.Tag, e.LeaseBy(r.Tag, r.Terms)).resumption(e.field, idValue(k.Key), idValue(r.ID), cmp.Or(r.Terms.Owner, e.Owner))
	img, sent, err := e.show(ctx, forResume, e.keyed(k), nil, update, r)
	a := img.answer(sent, r, Lost, Lost)
	if a.Outcome == Lost {
		return e.lost(ctx, a, err, k.Pin, k.names)
	}
	return a, err
}

// Touch extends the token's entry and gives it to nobody. The outcome is
// Renewed, or Lost.
func (e *Engine) Touch(ctx context.Context, k Token) (Answer, error) {
	d := e.present(k.Tag, k.TTL)
	entries := inPlaceBy(tokenKey, d.own, idValue(k.Key), bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}})
	return e.matched(ctx, k.Pin, change{comment: forTouch, query: e.keyed(k), update: stage(e.path(k.Tag), entries)}, Renewed, k.names)
}

// names says that an entry is the token's: that keyed matches it.
func (k Token) names(e Entry) bool { return e.Tag == k.Tag && e.Key == k.Key && e.Held() }

// keyed is the filter that matches while the token's entry is in the document.
func (e *Engine) keyed(k Token) bson.D {
	entry := bson.D{{Key: tokenKey, Value: idValue(k.Key)}, {Key: fenceKey, Value: bson.D{{Key: "$gt", Value: 0}}}}
	return k.Pin.and(bson.E{Key: e.path(k.Tag), Value: value(bson.D{{Key: "$elemMatch", Value: entry}})})
}

// resumption is the pipeline of resume. The filter has checked that an entry
// has the key.
func (d decision) resumption(field string, key, id expr, owner string) bson.A {
	resumed := inherited()
	resumed.id, resumed.owner, resumed.fence = id, call("$literal", owner), "$$next"
	resumed.expires, resumed.key = d.extended("$$e", d.held), key
	resumed.until = cond("$$e."+detachedKey,
		orElse("$$e."+untilKey, "$$REMOVE"),
		call("$max", args{"$$e." + untilKey, "$$e." + expiresKey}))
	takeover := let(bson.D{{Key: "next", Value: d.next()}},
		d.change("$$next", mapped(d.own, "e", cond(call("$eq", "$$e."+tokenKey, key), resumed.document(), "$$e"))))
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
