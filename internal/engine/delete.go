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
func (e *Engine) Delete(ctx context.Context, g Grant) (Outcome, error) {
	if err := e.reach(ctx); err != nil {
		return Lost, err
	}
	outcome, err := e.matched(e.coll.FindOneAndDelete(ctx, e.Guard(g), options.FindOneAndDelete().SetProjection(onlyID)), Released)
	if err != nil || outcome == Released {
		return outcome, err
	}
	img, err := e.Read(ctx, g.Pin)
	if err != nil || img == nil {
		return Lost, err
	}
	if own, there := img.Lock.Find(g.Tag, g.ID); there && own.Fence == g.Fence {
		return Lost, &Failure{Certain: true, Again: true, err: errors.New("the document was being updated")}
	}
	return Lost, nil
}
