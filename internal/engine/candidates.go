package engine

import (
	"context"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// wasKey is the lock before the decision, in the look-up's pipeline.
const wasKey = "__doclockWas"

// Candidates looks up documents that the filter finds and that are free for the
// tag, in the order of the filter's keys, at most limit. It is one read. A
// document is a candidate if the arrival's own stage, applied to what was read,
// lets the arrival in. The terms of an acquire don't matter for that: they say what
// a granted entry gets. A remainder keeps a document from being free. The answer
// proves nothing (rule 26): by then the document may be locked, changed or deleted.
//
// The read has the primary's newest state (read concern local). A majority read
// would be behind, and show documents that are locked by now.
//
// It is an aggregation, and not a find with $expr: DocumentDB refuses $$NOW in
// any find filter on a collection that has an index beside _id's.
func (e *Engine) Candidates(ctx context.Context, f Filter, tag string, limit int) ([]Pin, error) {
	identity := bson.D{{Key: "_id", Value: 1}}
	for _, key := range e.ShardKey {
		identity = append(identity, bson.E{Key: key, Value: 1})
	}
	lock := bson.E{Key: e.field, Value: 1}
	was := bson.E{Key: wasKey, Value: "$" + e.field}
	stages := bson.A{bson.D{{Key: "$match", Value: f.doc}}}
	if f.sort != nil {
		stages = append(stages, bson.D{{Key: "$sort", Value: f.sort}})
	}
	stages = append(stages,
		ownStage("$project", append(identity[:len(identity):len(identity)], lock, was)),
		e.template(trying, tag, Terms{}).fill(uuid.New(), e.now()).stage(),
		ownStage("$match", bson.D{{Key: "$expr", Value: call("$ne", "$"+e.field, "$"+wasKey)}}),
		ownStage("$limit", int64(limit)),
		ownStage("$project", identity),
	)
	if _, err := e.begin(ctx); err != nil {
		return nil, err
	}
	var found []Pin
	cursor, err := e.cursor(ctx, value(bson.D{
		{Key: "aggregate", Value: e.name},
		{Key: "comment", Value: forClaim},
		{Key: "cursor", Value: bson.D{{Key: "batchSize", Value: int32(limit) + 1}}},
		{Key: "pipeline", Value: stages},
		{Key: "readConcern", Value: localRead},
	}).Value, forClaim, int32(limit)+1)
	if err == nil {
		err = cursor.each(ctx, func(doc bson.Raw) bool {
			img := &Image{ID: clone(doc.Lookup("_id")), raw: doc}
			found = append(found, e.Pin(img))
			return true
		})
	}
	if noCollection(err) {
		return nil, nil
	}
	return found, e.failed(err)
}

// ownStage is a stage of the library's own: the caller's registry can't alter it.
func ownStage(operator string, of any) bson.Raw {
	return value(bson.D{{Key: operator, Value: of}}).Value
}
