package engine

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
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

// Standing is what a read shows of a lease's entry, which is there with its fencing
// token, or Lost.
type Standing struct {
	Left time.Duration // for how long the entry will stay: from the send on, less the tolerance
	Lost *Answer       // or nil
}

// Standing reads, in one command, how several leases stand. Where the server has
// members, the read is the proof that an entry is not there.
func (e *Engine) Standing(ctx context.Context, grants []Grant) (all map[uuid.UUID]Standing, sent Reading, err error) {
	all = make(map[uuid.UUID]Standing, len(grants))
	see := func(doc bson.Raw) {
		now, _ := doc.Lookup(nowKey).TimeOK()
		entries := e.allEntries(doc)
		img, _ := e.imageOf(doc)
		for _, g := range grants {
			i := slices.IndexFunc(entries, g.owns)
			switch {
			case !g.Pin.ID().Equal(img.ID):
			case i >= 0:
				all[g.ID] = Standing{Left: min(max(entries[i].Expires.Sub(now), 0)-e.Tolerance, g.TTL)}
			case bytes.Equal(encoded(bson.D(g.Pin)).Value, encoded(bson.D(e.Pin(img))).Value): // and not the document of that _id on another shard
				all[g.ID] = Standing{Lost: &Answer{Outcome: Lost, Image: img}}
			}
		}
	}
	projection := e.image.fill(uuid.Nil, e.now()).document()
	sent, err = e.newest(ctx, search{comment: forProof, filter: e.anyOf(grants), fields: projection, batch: int32(len(grants)) + 1}, see)
	for _, g := range grants {
		if _, there := all[g.ID]; !there {
			all[g.ID] = Standing{Lost: &Answer{Outcome: Lost, Gone: true}}
		}
	}
	return all, sent, err
}

// anyOf matches the documents of the grants.
func (e *Engine) anyOf(grants []Grant) bson.D {
	if len(e.ShardKey) == 0 {
		ids := make(bson.A, len(grants))
		for i, g := range grants {
			ids[i] = g.Pin.ID()
		}
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	}
	pins := make(bson.A, len(grants)) // the router sends them to the right shards
	for i, g := range grants {
		pins[i] = bson.D(g.Pin)
	}
	return bson.D{{Key: "$or", Value: pins}}
}
