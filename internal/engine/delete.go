package engine

import (
	"context"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Delete deletes the document, and the lock in it, under the guard. The outcome
// is Released. If the guard matches nothing, a read finds the reason. If the
// entry or the document is not there, the outcome is Lost. If the entry is
// there, a race is lost: DocumentDB's delete may pass over a document that is
// being updated at that moment. So does a delete by the lease of a token before the
// time until which the lease of another user may be valid.
func (e *Engine) Delete(ctx context.Context, g Grant) (Answer, error) {
	filter, missed := e.Guard(g), "the document was being updated"
	if g.Key != uuid.Nil && !g.Until.IsZero() {
		filter = append(filter, bson.E{Key: "$expr", Value: call("$lte", g.Until, e.serverTime())})
		missed = "another user of the token may hold the lock"
	}
	found, sent, err := e.send(ctx, change{comment: forDelete, query: filter, delete: true})
	a := Answer{Outcome: Released, Sent: sent}
	if found != nil || err != nil {
		return a, err
	}
	a.Outcome = Lost
	return e.proven(ctx, a, g.Pin, g.owns, missed)
}
