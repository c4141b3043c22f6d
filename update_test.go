package doclock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var increment = bson.M{"$inc": bson.M{"count": 1}}

// writes are the two guarded writes; most promises hold for both.
var writes = map[string]func(*doclock.Lease, context.Context, any) error{
	"Update":           func(l *doclock.Lease, ctx context.Context, u any) error { return l.Update(ctx, u) },
	"UpdateAndRelease": func(l *doclock.Lease, ctx context.Context, u any) error { return l.UpdateAndRelease(ctx, u) },
}

func eachWrite(t *testing.T, run func(*testing.T, string, func(*testing.T)) bool, f func(*rig, *doclock.Lease, func(context.Context, any) error)) {
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

// A lease that others were let in after writes nothing.
func TestLateWriteIsRefused(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease *doclock.Lease, write func(context.Context, any) error) {
		r.takeOver()
		if err := write(r.Context(), increment); !errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) {
			r.Errorf("write = %v", err)
		}
		if got := r.stored().Count; got != 0 {
			r.Errorf("count = %d", got)
		}
		if n := r.sent.count(); n != 1 {
			r.Errorf("sent %v", r.sent.all())
		}
	})
}

func TestWriteWhoseMessageIsLostIsAppliedOnce(t *testing.T) {
	for _, lost := range []faultnet.Kind{faultnet.LoseReply, faultnet.LoseRequest} {
		eachWrite(t, (*testing.T).Run, func(r *rig, lease *doclock.Lease, write func(context.Context, any) error) {
			fault := r.net.Arm(lost, "findAndModify")
			if err := write(r.Context(), increment); err != nil {
				r.Errorf("%v: write = %v", lost, err)
			}
			<-fault.Fired()
			if got := r.stored().Count; got != 1 {
				r.Errorf("%v: count = %d", lost, got)
			}
		})
	}
}

// A write-concern error: applied on the primary, the image dropped by the
// driver. It is not taken for a refusal, and not applied again.
func TestWriteConcernErrorIsNoRefusal(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease *doclock.Lease, write func(context.Context, any) error) {
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

// The server refuses the update: Update's lease stands, UpdateAndRelease
// releases plainly.
func TestServerRefusesTheUpdate(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease *doclock.Lease, write func(context.Context, any) error) {
		r.change(bson.M{"$set": bson.M{"text": "a"}})
		err := write(r.Context(), bson.M{"$inc": bson.M{"text": 1}})
		var refused mongo.CommandError
		if !errors.As(err, &refused) || errors.Is(err, doclock.ErrOutcomeUnknown) {
			r.Errorf("write = %v", err)
		}
		held := len(r.stored().Lock.Tags["write"]) == 1
		keeps := strings.HasSuffix(r.Name(), "/Update")
		if held != keeps {
			r.Errorf("entry there: %v", held)
		}
		if keeps != (lease.Err() == nil) {
			r.Errorf("Err = %v", lease.Err())
		}
		if err := lease.Release(r.Context()); err != nil {
			r.Errorf("Release = %v", err)
		}
	})
}

func TestInvalidUpdates(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease *doclock.Lease, write func(context.Context, any) error) {
		before := r.stored()
		for name, update := range map[string]any{
			"nil":                 nil,
			"empty":               bson.M{},
			"empty pipeline":      bson.A{},
			"a number":            3,
			"replacement":         bson.M{"count": 1},
			"the lock":            bson.M{"$unset": bson.M{"lock": ""}},
			"under the lock":      bson.M{"$set": bson.M{"lock.tags.write.0.owner": "me"}},
			"renamed to the lock": bson.M{"$rename": bson.M{"count": "lock"}},
			"positional":          bson.M{"$set": bson.M{"items.$": 1}},
			"positional inside":   bson.M{"$set": bson.M{"items.$.n": 1}},
			"struct with the lock": struct {
				Set struct{ Lock int } `bson:"$set"`
			}{},
			"pipeline sets the lock":  bson.A{bson.M{"$set": bson.M{"lock": 1}}},
			"pipeline unsets it":      bson.A{bson.M{"$unset": bson.A{"count", "lock.tags"}}},
			"pipeline replaces":       bson.A{bson.M{"$replaceWith": bson.M{"a": 1}}},
			"pipeline projects":       bson.A{bson.M{"$project": bson.M{"lock": 0}}},
			"pipeline with two words": bson.A{bson.D{{Key: "$set", Value: bson.M{"a": 1}}, {Key: "$unset", Value: "b"}}},
		} {
			if err := write(r.Context(), update); !errors.Is(err, doclock.ErrInvalidArgument) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if n := r.sent.count(); n != 0 {
			r.Errorf("sent %v", r.sent.all())
		}
		if after := r.stored(); after.Count != before.Count || after.Lock.Fence != before.Lock.Fence {
			r.Errorf("stored %+v, was %+v", after, before)
		}
		if err := lease.Err(); err != nil { // refused before sending: the lease stands
			r.Errorf("the lease: %v", err)
		}
	})
}

func TestUpsertIsRefused(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	if err := lease.Update(t.Context(), increment, options.UpdateOne().SetUpsert(true)); !errors.Is(err, doclock.ErrInvalidArgument) {
		t.Errorf("Update = %v", err)
	}
}
