package doclock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var increment = bson.M{"$inc": bson.M{"count": 1}}

// writes are the two guarded writes; most promises hold for both.
var writes = map[string]func(doclock.Lease, context.Context, any) error{
	"Update":           func(l doclock.Lease, ctx context.Context, u any) error { return l.Update(ctx, u) },
	"UpdateAndRelease": func(l doclock.Lease, ctx context.Context, u any) error { return l.UpdateAndRelease(ctx, u) },
}

func eachWrite(t *testing.T, run func(*testing.T, string, func(*testing.T)) bool, f func(*rig, doclock.Lease, func(context.Context, any) error)) {
	t.Helper()
	for name, write := range writes {
		run(t, name, func(t *testing.T) {
			r := newRig(t)
			lease := r.acquire()
			f(r, lease, func(ctx context.Context, u any) error { return write(lease, ctx, u) })
		})
	}
}

func TestUpdateTakesPipelinesAndArrayFilters(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	if err := lease.Update(t.Context(), mongo.Pipeline{{{Key: "$set", Value: bson.M{"items": bson.A{bson.M{"n": 1}, bson.M{"n": 2}}}}}}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"items.$[big].n": 10}},
		options.UpdateOne().SetArrayFilters([]any{bson.M{"big.n": bson.M{"$gt": 1}}})); err != nil {
		t.Fatal(err)
	}
	if err := lease.UpdateAndRelease(t.Context(), bson.M{"$inc": bson.M{"items.$[small].n": -1}},
		options.UpdateOne().SetArrayFilters([]any{bson.M{"small.n": bson.M{"$lt": 2}}})); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Items []struct{ N int } }
	if err := r.other.FindOne(t.Context(), bson.M{"_id": 1}).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Items) != 2 || doc.Items[0].N != 0 || doc.Items[1].N != 12 {
		t.Errorf("items %v", doc.Items)
	}
}

// A write-concern error: applied on the primary, the image dropped by the
// driver. It is not taken for a refusal, and not applied again.
func TestWriteConcernErrorIsNoRefusal(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease doclock.Lease, write func(context.Context, any) error) {
		r.net.ArmRewrite(faultnet.Rewrite, "findAndModify", func(reply bson.Raw) any {
			var d bson.D
			_ = bson.Unmarshal(reply, &d)
			return append(d, bson.E{Key: "writeConcernError", Value: bson.M{"code": 64, "errmsg": "waiting for replication timed out"}})
		})
		if err := write(r.Context(), increment); err != nil {
			r.Errorf("write = %v", err)
		}
		if got := r.stored().Count; got != 1 {
			r.Errorf("count = %d", got)
		}
	})
}

// An update that cannot be is refused before anything is sent, and the lease stands. internal/engine has the kinds.
func TestInvalidUpdates(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease doclock.Lease, write func(context.Context, any) error) {
		before := r.stored()
		for name, update := range map[string]any{
			"nil":              nil,
			"replacement":      bson.M{"count": 1},
			"the lock":         bson.M{"$unset": bson.M{"lock": ""}},
			"pipeline sets it": bson.A{bson.M{"$set": bson.M{"lock": 1}}},
		} {
			if err := write(r.Context(), update); !errors.Is(err, doclock.ErrInvalidArgument) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if err := lease.Update(r.Context(), increment, options.UpdateOne().SetUpsert(true)); !errors.Is(err, doclock.ErrInvalidArgument) {
			r.Errorf("upsert: %v", err)
		}
		if n := r.sent.count(); n != 0 {
			r.Errorf("sent %v", r.sent.all())
		}
		if after := r.stored(); after.Count != before.Count || after.Lock.Fence != before.Lock.Fence {
			r.Errorf("stored %+v, was %+v", after, before)
		}
		if err := lease.Err(); err != nil { // it stands
			r.Errorf("the lease: %v", err)
		}
	})
}
