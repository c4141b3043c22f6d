package engine

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Delete deletes the document under the guard, and its lock with it: the
// outcome is Released. Where the guard finds nothing, a read tells why: the
// entry or the document is gone, which is Lost; or it is there after all, for
// DocumentDB's delete may pass over a document that is being updated at that
// moment. The failure then says to send it again.
func (e *Engine) Delete(ctx context.Context, g Grant) (Answer, error) {
	sent, err := e.begin(ctx)
	if err != nil {
		return Answer{Outcome: Lost, Sent: sent}, err
	}
	deleted := e.coll.FindOneAndDelete(ctx, e.Guard(g), options.FindOneAndDelete().SetProjection(onlyID))
	a, err := e.matched(deleted, sent, Released)
	if err != nil || a.Outcome == Released {
		return a, err
	}
	img, err := e.Read(ctx, g.Pin)
	if err != nil || img == nil {
		return a, err
	}
	if own, there := img.Lock.Find(g.Tag, g.ID); there && own.Fence == g.Fence {
		return a, &Failure{Certain: true, Again: true, err: errors.New("the document was being updated")}
	}
	return a, nil
}
