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

// Remove sends one command that removes the entries of a tag with these ids,
// held or waiting, whatever their tokens: the clean-up of acquires without a
// lease. It returns the ids that it found. Without a pin the server looks
// through the collection, and the command cleans up one document.
func (e *Engine) Remove(ctx context.Context, pin Pin, tag string, ids []uuid.UUID) (found []uuid.UUID, err error) {
	among := make(bson.A, len(ids))
	for i, id := range ids {
		among[i] = idValue(id)
	}
	oneOf := value(bson.D{{Key: "$in", Value: among}})
	filter := pin.and(bson.E{Key: e.path(tag) + "." + idKey, Value: oneOf})
	update := value(bson.D{{Key: "$pull", Value: bson.D{{Key: e.path(tag), Value: bson.D{{Key: idKey, Value: oneOf}}}}}})
	opts := options.FindOneAndUpdate().SetReturnDocument(options.Before).SetProjection(e.tags[tag].tokens)
	result, _ := e.findOneAndUpdate(ctx, filter, bson.Raw(update.Value), opts)
	before, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, e.failed(err)
	}
	for _, entry := range e.allEntries(before) {
		if entry.Tag == tag && slices.Contains(ids, entry.ID) {
			found = append(found, entry.ID)
		}
	}
	return found, nil
}
