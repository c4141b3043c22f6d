package faultnet_test

import (
	"context"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The effect of each fault on a plain increment: the client's result, and the
// number of executions, before and after the fault is let go.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		kind        faultnet.Kind
		fails       bool
		count, late int
	}{
		{faultnet.LoseRequest, true, 0, 0},
		{faultnet.LoseReply, true, 1, 1},
		{faultnet.Hold, true, 0, 1},
		{faultnet.Stall, true, 0, 0},
		{faultnet.DelayReply, true, 1, 1}, // longer than the client waits
		{faultnet.Repeat, false, 1, 2},
		{faultnet.Cut, true, 0, 0},
		{faultnet.Rewrite, true, 1, 1},
		{faultnet.Refuse, true, 0, 0},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			t.Parallel()
			net := faultnet.New()
			doc := fixture.NewDocument(t, bson.E{Key: "count", Value: 0})
			docs := doc.Through(options.Client().SetDialer(net).SetRetryWrites(false))
			count := func() int {
				var stored struct{ Count int }
				doc.Decode(&stored)
				return stored.Count
			}
			var fault *faultnet.Fault
			if c.kind == faultnet.Rewrite || c.kind == faultnet.Refuse {
				fault = net.ArmRewrite(c.kind, "findAndModify", func(bson.Raw) any {
					return bson.M{"ok": 0, "code": 8000, "errmsg": "rewritten"}
				})
			} else {
				fault = net.Arm(c.kind, "findAndModify")
			}
			ctx, cancel := context.WithCancel(fixture.Bounded(t))
			defer cancel()
			if c.kind == faultnet.Stall || c.kind == faultnet.DelayReply { // nothing else ends it
				go func() {
					<-fault.Fired()
					cancel()
				}()
			}
			err := docs.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"count": 1}}).Err()
			if (err != nil) != c.fails {
				t.Errorf("the client gets %v", err)
			}
			<-fault.Fired()
			if n := net.Fired(c.kind); n != 1 {
				t.Errorf("fired %d times", n)
			}
			if n := count(); n != c.count {
				t.Errorf("executed %d times, want %d", n, c.count)
			}
			if err := fault.Let(); err != nil {
				t.Errorf("let go: %v", err)
			}
			if n := count(); n != c.late {
				t.Errorf("then executed %d times, want %d", n, c.late)
			}
		})
	}
}

func TestDisarm(t *testing.T) {
	t.Parallel()
	net := faultnet.New()
	client := mongotest.Client(t, options.Client().SetDialer(net))
	net.Arm(faultnet.LoseRequest, "")
	net.Disarm()
	if err := client.Database("nothing").Collection("docs").FindOne(t.Context(), bson.M{}).Err(); err == nil || net.Fired(faultnet.LoseRequest) != 0 {
		t.Errorf("%v, fired %d", err, net.Fired(faultnet.LoseRequest))
	}
}
