package engine

import (
	"context"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Detach ends the grant's handle, and leaves its entry to the users of a token
// with this key. The outcome is Detached, or Lost. The entry keeps its id, its
// fencing token and its number: until a resume, a late write of the handle still
// finds it, and is applied once.
func (e *Engine) Detach(ctx context.Context, g Grant, key uuid.UUID) (Answer, error) {
	d := e.present(g.Tag, g.TTL)
	entries := inPlace(d.own, idValue(g.ID), bson.D{
		{Key: tokenKey, Value: idValue(key)},
		{Key: detachedKey, Value: true},
		{Key: expiresKey, Value: d.extended("$$e", d.held)},
	})
	return e.matched(ctx, g.Pin, change{comment: forDetach, query: e.Guard(g), update: stage(e.path(g.Tag), entries)}, Detached, g.owns)
}
