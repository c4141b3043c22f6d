package engine

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Claim sends one claim: an acquire that doesn't wait, of the first document by the
// filter's keys that matches and is free for the tag. It passes over the documents of
// past. The outcome is Granted or NotFound; it is a failure if the server's clock gives no
// fence. The request's id must be new: a repeat could find another document.
func (e *Engine) Claim(ctx context.Context, f Filter, r Request, past []Pin) (Answer, error) {
	r.Try = true
	img, sent, err := e.show(ctx, forClaim, e.free(f, r.Tag, past), f.sort, e.arriving(r).fill(r.ID, e.now()), r)
	return e.answer(img, err, sent, r, NotFound, Conflict)
}

// Candidates reads which documents a claim would find, at most limit, in the order of
// the filter's keys. It has the primary's newest state (read concern local): a majority
// read would be behind, and show documents that are locked by now.
func (e *Engine) Candidates(ctx context.Context, f Filter, tag string, past []Pin, limit int) (found []Pin, err error) {
	fields := bson.D{{Key: "_id", Value: 1}}
	for _, key := range e.ShardKey {
		fields = append(fields, bson.E{Key: key, Value: 1})
	}
	if _, err = e.begin(ctx); err != nil {
		return nil, err
	}
	free := search{comment: forClaim, filter: e.free(f, tag, past), fields: value(fields).Value, sort: f.sort, limit: limit}
	err = e.visit(ctx, localRead, free, func(doc bson.Raw) {
		found = append(found, e.Pin(&Image{ID: clone(doc.Lookup("_id")), raw: doc}))
	})
	return found, err
}

// Claimed looks for the entry that a claim of unknown outcome may have made, by its id, and
// by its pin or else its filter. The image is nil if there is none, which is proven
// (rule 27). It is no grant: the entry may have expired.
func (e *Engine) Claimed(ctx context.Context, f Filter, r Request) (*Image, error) {
	projection := e.image.fill(r.ID, e.now()).document()
	var found bson.Raw
	own := search{comment: forProof, filter: e.withID(f.Pin, r.Tag, r.ID), fields: projection}
	if f.Pin == nil {
		own.filter = f.and(own.filter)
	}
	if _, err := e.newest(ctx, own, func(doc bson.Raw) { found = doc }); err != nil {
		return nil, err
	}
	return e.readImage(found, nil)
}

// free is the filter that finds what matches and is free for the tag, without the
// documents of past.
func (e *Engine) free(f Filter, tag string, past []Pin) bson.Raw {
	free := []any{e.tags[tag].free.fill([16]byte{}, e.now()).document()}
	switch {
	case len(past) == 0:
	case len(e.ShardKey) == 0:
		free = append(free, bson.D{{Key: "_id", Value: bson.D{{Key: "$nin", Value: ids(past)}}}})
	default:
		free = append(free, bson.D{{Key: "$nor", Value: pins(past)}})
	}
	return f.and(free...)
}

func ids(pins []Pin) bson.A {
	all := make(bson.A, len(pins))
	for i, pin := range pins {
		all[i] = pin.ID()
	}
	return all
}

func pins(pins []Pin) bson.A {
	all := make(bson.A, len(pins))
	for i, pin := range pins {
		all[i] = bson.D(pin)
	}
	return all
}

// free tests that an arrival that doesn't wait is granted, and its id is new. A document that was never locked is found
// without the expression: DocumentDB evaluates it for all documents that match, and sorts them then.
func (d decision) free() bson.D {
	exclusive, refused, _ := d.arrivalRules(false)
	var test expr = true
	if len(refused) > 0 {
		test = let(d.survivors(exclusive), cond(anyOf(refused...), false, true))
	}
	return bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: d.lock[1:], Value: bson.D{{Key: "$exists", Value: false}}}},
		bson.D{{Key: "$expr", Value: cond(d.wellFormed(d.empty(exclusive)), cond(call("$lt", d.lock+"."+fenceKey, long(fenceLimit-1)), test, false), false)}},
	}}}
}
