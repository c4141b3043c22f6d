package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// RenewAll sends the renewals of several leases in one command. The outcome is
// Renewed if every entry was there with its fencing token, and else Lost. The
// answer counts the statements that matched and does not name those that
// didn't. If the outcome is Lost, or there is an error, some entries may have
// been extended: see [Engine.Standing].
func (e *Engine) RenewAll(ctx context.Context, grants []Grant) (Answer, error) {
	statements := make([]bson.Raw, len(grants))
	for i, g := range grants {
		statements[i] = updateOf(e.Guard(g), e.renewing(g).fill(g.ID, e.now()))
	}
	sent, err := e.begin(ctx)
	a := Answer{Outcome: Lost, Sent: sent}
	if err != nil {
		return a, err
	}
	reply, err := e.statements(ctx, forRenew, "update", statements...)
	if err == nil && counted(reply, "n") == int64(len(grants)) {
		a.Outcome = Renewed
	}
	return a, err
}

// Standing reads, in one command, how long the entries of several leases will
// stay: from sent on, less the tolerance. An entry that is not there with its
// fencing token is not in the map. Where the server has members, the read is the
// proof of that.
func (e *Engine) Standing(ctx context.Context, grants []Grant) (standing map[uuid.UUID]time.Duration, sent Reading, err error) {
	wanted := make(map[uuid.UUID]Grant, len(grants))
	for _, g := range grants {
		wanted[g.ID] = g
	}
	standing = make(map[uuid.UUID]time.Duration, len(grants))
	see := func(doc bson.Raw) {
		now, _ := doc.Lookup(nowKey).TimeOK()
		for _, entry := range e.allEntries(doc) {
			g, ours := wanted[entry.ID]
			if ours && entry.Tag == g.Tag && entry.Fence == g.Fence && g.DocID.Equal(doc.Lookup("_id")) {
				standing[g.ID] = min(entry.Expires.Sub(now)-e.Tolerance, g.TTL)
			}
		}
	}
	projection := e.image.fill(uuid.Nil, e.now()).document()
	sent, err = e.newest(ctx, func(docs *mongo.Collection) error {
		cursor, err := docs.Find(ctx, e.anyOf(grants), options.Find().SetComment(forProof).SetProjection(projection).SetBatchSize(int32(len(grants))+1))
		if err != nil {
			return err
		}
		defer cursor.Close(ctx)
		for cursor.Next(ctx) {
			see(cursor.Current)
		}
		return cursor.Err()
	})
	if noCollection(err) {
		err = nil
	}
	return standing, sent, err
}

// anyOf matches the documents of the grants.
func (e *Engine) anyOf(grants []Grant) bson.D {
	if len(e.ShardKey) == 0 {
		ids := make(bson.A, len(grants))
		for i, g := range grants {
			ids[i] = g.DocID
		}
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	}
	pins := make(bson.A, len(grants)) // the router sends them to the right shards
	for i, g := range grants {
		pins[i] = bson.D(g.Pin)
	}
	return bson.D{{Key: "$or", Value: pins}}
}
