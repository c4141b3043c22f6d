package hammer

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Faults of the network.
const (
	FaultRequestLost  = "request lost"
	FaultReplyLost    = "reply lost after execution"
	FaultHeld         = "connection broken, request executed late"
	FaultStalled      = "blackhole"
	FaultDelayed      = "reply delayed"
	FaultRepeated     = "duplicate of a command executed late"
	FaultWriteConcern = "write-concern error"
	FaultNoWrites     = "refused with the label NoWritesPerformed"
	FaultLatency      = "spell of latency"
)

// weather arms one fault after the other until ctx ends.
type weather struct {
	net      *faultnet.Net
	recorder *history.Recorder
	out      *history.Writer
	rng      *rand.Rand
	late     sync.WaitGroup
}

func (w *weather) blow(ctx context.Context) {
	for sleep(ctx, time.Duration(20+w.rng.IntN(80))*time.Millisecond) {
		switch w.rng.IntN(9) {
		case 0:
			w.await(ctx, FaultRequestLost, w.net.ArmWhere(faultnet.LoseRequest, ofProtocol), 0)
		case 1:
			w.await(ctx, FaultReplyLost, w.net.ArmWhere(faultnet.LoseReply, ofProtocol), 0)
		case 2:
			w.await(ctx, FaultHeld, w.net.ArmWhere(faultnet.Hold, w.ghost), time.Duration(20+w.rng.IntN(800))*time.Millisecond)
		case 3:
			w.await(ctx, FaultStalled, w.net.ArmWhere(faultnet.Stall, ofProtocol), 0)
		case 4:
			w.await(ctx, FaultDelayed, w.net.ArmWhere(faultnet.DelayReply, ofProtocol), time.Duration(10+w.rng.IntN(300))*time.Millisecond)
		case 5:
			w.await(ctx, FaultRepeated, w.net.ArmWhere(faultnet.Repeat, w.ghost), time.Duration(20+w.rng.IntN(800))*time.Millisecond)
		case 6:
			w.await(ctx, FaultWriteConcern, w.net.ArmRewrite(faultnet.Rewrite, "findAndModify", withWriteConcernError), 0)
		case 7:
			w.await(ctx, FaultNoWrites, w.net.ArmRewrite(faultnet.Refuse, "findAndModify", noWrites), 0)
		case 8:
			w.net.Delay(time.Duration(5+w.rng.IntN(40)) * time.Millisecond)
			sleep(ctx, 100*time.Millisecond)
			w.net.Delay(0)
			w.out.Fault(FaultLatency)
		}
	}
	w.net.Disarm()
	w.late.Wait()
}

// ofProtocol matches the commands that change locks, including batched
// renewals.
func ofProtocol(name string, _ bson.Raw) bool { return name == "findAndModify" || name == "update" }

// ghost matches a command that the server will get without the driver.
func (w *weather) ghost(name string, body bson.Raw) bool {
	if name != "findAndModify" {
		return false
	}
	w.recorder.Ghost(body)
	return true
}

// await waits until the fault has fired, and later releases a message that it
// holds.
func (w *weather) await(ctx context.Context, name string, f *faultnet.Fault, hold time.Duration) {
	select {
	case <-f.Fired():
		w.out.Fault(name)
	case <-ctx.Done():
		w.net.Disarm()
		select {
		case <-f.Fired():
			w.out.Fault(name)
		case <-time.After(500 * time.Millisecond): // a fault that waits for its reply
			select {
			case <-f.Fired():
			default:
				return
			}
		}
	}
	if hold > 0 {
		w.late.Go(func() {
			time.Sleep(hold)
			_ = f.Let() // if its connection fails, the command was never sent
		})
	}
}

func withWriteConcernError(reply bson.Raw) any {
	var document bson.D
	if err := bson.Unmarshal(reply, &document); err != nil {
		return reply
	}
	return append(document, bson.E{Key: "writeConcernError", Value: bson.M{"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "injected: waiting for replication timed out"}})
}

func noWrites(bson.Raw) any {
	return bson.M{
		"ok": 0, "code": 91, "codeName": "ShutdownInProgress", "errmsg": "injected: nothing was written",
		"errorLabels": bson.A{"NoWritesPerformed", "RetryableWriteError"},
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
