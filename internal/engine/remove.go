package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Remove removes the entries of a tag with these ids, held or waiting, whatever
// their fencing tokens and the times that their grants wrote down: the clean-up
// of acquires without a lease. It spares an entry with a key, which is a
// token's. It returns the ids of the entries that it removed. Without a pin the
// server searches the collection, and the command cleans up one document.
func (e *Engine) Remove(ctx context.Context, pin Pin, tag string, ids []uuid.UUID) (found []uuid.UUID, err error) {
	among := make(bson.A, len(ids))
	for i, id := range ids {
		among[i] = idValue(id)
	}
	path := e.path(tag)
	oneOf := bson.D{{Key: idKey, Value: bson.D{{Key: "$in", Value: among}}}, {Key: tokenKey, Value: nil}}
	filter := pin.and(bson.E{Key: path, Value: value(bson.D{{Key: "$elemMatch", Value: oneOf}})})
	update := value(bson.D{{Key: "$pull", Value: bson.D{{Key: path, Value: oneOf}}}})
	projection := joined(e.tags[tag].fences, field(path+"."+tokenKey, value(1)))
	opts := options.FindOneAndUpdate().SetReturnDocument(options.Before).SetProjection(projection)
	result, _ := e.findOneAndUpdate(ctx, filter, bson.Raw(update.Value), opts)
	before, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, e.failed(err)
	}
	for _, entry := range e.allEntries(before) {
		if entry.Tag == tag && entry.Key == uuid.Nil && slices.Contains(ids, entry.ID) {
			found = append(found, entry.ID)
		}
	}
	return found, nil
}
