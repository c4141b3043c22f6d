package engine

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Remove removes the entries of a tag with these ids, held or waiting, whatever
// their fencing tokens and the times that their grants wrote down: the clean-up
// of acquires without a lease. It spares an entry with a key, which is a
// token's. It returns the ids of the entries that it removed. Without a pin the
// server searches what the filter matches, if there is one, and the command cleans up
// one document.
func (e *Engine) Remove(ctx context.Context, f Filter, tag string, ids []uuid.UUID) (found []uuid.UUID, err error) {
	path := e.path(tag)
	update := value(bson.D{{Key: "$pull", Value: bson.D{{Key: path, Value: oneOf(ids)}}}})
	projection := joined(e.tags[tag].fences, field(path+"."+tokenKey, value(1)))
	img, _, err := e.send(ctx, change{comment: forCleanUp, query: e.withOneOf(f, tag, ids), update: bson.Raw(update.Value), shows: before, fields: projection})
	if img == nil || err != nil {
		return nil, err
	}
	for _, entry := range e.allEntries(img) {
		if entry.Tag == tag && entry.Key == uuid.Nil && slices.Contains(ids, entry.ID) {
			found = append(found, entry.ID)
		}
	}
	return found, nil
}

// NoneOf proves that no document has an entry which Remove would remove: see
// [Engine.Absent].
func (e *Engine) NoneOf(ctx context.Context, f Filter, tag string, ids []uuid.UUID) error {
	return e.absent(ctx, e.withOneOf(f, tag, ids))
}

// withOneOf is the filter that matches while an entry has one of the ids, and no key.
func (e *Engine) withOneOf(f Filter, tag string, ids []uuid.UUID) any {
	one := bson.E{Key: e.path(tag), Value: value(bson.D{{Key: "$elemMatch", Value: oneOf(ids)}})}
	if f.Pin == nil && f.doc != nil {
		return f.and(bson.D{one})
	}
	return f.Pin.and(one)
}

func oneOf(ids []uuid.UUID) bson.D {
	among := make(bson.A, len(ids))
	for i, id := range ids {
		among[i] = idValue(id)
	}
	return bson.D{{Key: idKey, Value: bson.D{{Key: "$in", Value: among}}}, {Key: tokenKey, Value: nil}}
}
