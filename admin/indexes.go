package admin

import (
	"context"
	"fmt"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// EnsureIndexes makes one index for each of these tags, if it isn't there, and
// returns their names. With them a [Query] of tags reads only the documents that
// have entries of these tags now:
//
//	{"lock.tags.<tag>.id": 1}, sparse
//
// For [Sweep], and a query without tags, give [Within] a filter with the same path, such as
// {"lock.tags.write.id": {$exists: true}}.
//
// Each grant and each release then writes to the index, and a renewal doesn't.
// Nothing in doclock needs the index, and nothing else makes it. It is no TTL index:
// one on the lock field would delete your documents.
//
// Errors: [doclock.ErrInvalidArgument], [doclock.ErrInTransaction], and the
// driver's. Options: [Field]. ([ShardKey] has no effect.)
func EnsureIndexes(ctx context.Context, coll *mongo.Collection, tags []string, opts ...Option) ([]string, error) {
	d, err := open(ctx, coll, "EnsureIndexes", opts)
	if err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, fmt.Errorf("%w: there are no tags; name those that your queries name", doclock.ErrInvalidArgument)
	}
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	var indexes []mongo.IndexModel
	for _, tag := range tags {
		indexes = append(indexes, mongo.IndexModel{
			Keys:    bson.D{{Key: d.engine.IndexedPath(tag), Value: 1}},
			Options: options.Index().SetSparse(true),
		})
	}
	names, err := coll.Indexes().CreateMany(ctx, indexes)
	if err != nil {
		return nil, fmt.Errorf("doclock: make the indexes: %w", d.engine.Unauthorized("createIndexes", err))
	}
	return names, nil
}
