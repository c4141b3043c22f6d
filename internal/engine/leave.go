package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file has what becomes of the entry of a lease that ends: it is removed,
// or it leaves a remainder until the time that its grant wrote down. The grant
// knows whether the entry has such a time. Without one the commands are those
// of classic operators, or the short ones.

// Release sends one release of the entry with the grant's id. An entry with
// that id and another fencing token comes from a late duplicate of the acquire:
// it is removed too, unless it is a token's, but the lease was lost.
func (e *Engine) Release(ctx context.Context, g Grant) (Answer, error) {
	c := e.tags[g.Tag]
	release := change{comment: forRelease, shows: before, fields: c.fences}
	if g.Until.IsZero() && g.Key == uuid.Nil {
		release.query = e.withID(g.Pin, g.Tag, g.ID)
		release.update = c.release.fill(g.ID, time.Time{})
	} else {
		release.query = g.Pin.and(bson.E{Key: e.path(g.Tag), Value: value(bson.D{{Key: "$elemMatch", Value: bson.D{{Key: idKey, Value: idValue(g.ID)}}}})})
		release.update = bson.A{e.remainder(g)}
	}
	img, sent, err := e.send(ctx, release)
	a := Answer{Outcome: Released, Sent: sent}
	if img == nil {
		return e.lost(ctx, a, err, g.Pin, withID(g.Tag, g.ID))
	}
	if e.ownEntry(img, g).Fence != g.Fence {
		a.Outcome = Lost
	}
	return a, err
}

// left is the stage that ends the lease in a handoff.
func (e *Engine) left(g Grant) bson.Raw {
	if g.Until.IsZero() {
		return e.tags[g.Tag].leave.fill(g.ID, time.Time{}).stage()
	}
	return e.remainder(g)
}

// remainder is the stage that ends the lease of an entry that may leave a
// remainder.
func (e *Engine) remainder(g Grant) bson.Raw {
	return setStage(bson.D{{Key: e.path(g.Tag), Value: e.leaving(g)}})
}

// leaving is the tag's array without the own entry, or with the remainder in
// its place. An entry with the own id and another fencing token goes too,
// unless it is a token's.
func (e *Engine) leaving(g Grant) bson.D {
	own, ours := call("$eq", "$$e."+idKey, idValue(g.ID)), call("$eq", "$$e."+fenceKey, long(g.Fence))
	stays := call("$or", not(own), cond(ours, call("$gt", "$$e."+untilKey, e.serverTime()), "$$e."+tokenKey))
	remainder := inherited()
	remainder.id, remainder.expires, remainder.until = idValue(uuid.New()), "$$e."+untilKey, "$$e."+untilKey
	return mapped(filter("$"+e.path(g.Tag), "e", stays), "e", cond(all(own, ours), remainder.document(), "$$e"))
}
