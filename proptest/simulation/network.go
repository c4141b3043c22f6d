package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Faults of the network of a real server.
const (
	FaultCut          = "connection reset in the middle of a request"
	FaultHeld         = "connection broken, request executed late"
	FaultStalled      = "blackhole"
	FaultReplyDelayed = "reply delayed"
	FaultRepeated     = "duplicate of a command executed late"
	FaultWriteConcern = "write-concern error"
	FaultOverload     = "refused because of overload"
	FaultLatency      = "spell of latency"
)

// weather arms one fault of a program's network after the other until ctx ends.
type weather struct {
	*run
	net      *faultnet.Net
	recorder *history.Recorder
	rng      *rand.Rand
	late     sync.WaitGroup
}

func (w *weather) blow(ctx context.Context) {
	hold := func(least, random int) time.Duration {
		return time.Duration(least+w.rng.IntN(random)) * time.Millisecond
	}
	for sleep(ctx, hold(20, 80)) {
		switch w.rng.IntN(10) {
		case 0:
			w.await(ctx, FaultRequestLost, w.net.ArmWhere(faultnet.LoseRequest, ofProtocol), 0)
		case 1:
			w.await(ctx, FaultReplyLost, w.net.ArmWhere(faultnet.LoseReply, ofProtocol), 0)
		case 2:
			w.await(ctx, FaultHeld, w.net.ArmWhere(faultnet.Hold, w.ghost), hold(20, 800))
		case 3:
			w.await(ctx, FaultStalled, w.net.ArmWhere(faultnet.Stall, ofProtocol), 0)
		case 4:
			w.await(ctx, FaultReplyDelayed, w.net.ArmWhere(faultnet.DelayReply, ofProtocol), hold(10, 300))
		case 5:
			w.await(ctx, FaultRepeated, w.net.ArmWhere(faultnet.Repeat, w.ghost), hold(20, 800))
		case 6:
			w.await(ctx, FaultWriteConcern, w.net.ArmRewrite(faultnet.Rewrite, "findAndModify", withWriteConcernError), 0)
		case 7:
			w.await(ctx, FaultOverload, w.net.ArmRewrite(faultnet.Refuse, "findAndModify", overloaded), 0)
		case 8:
			w.net.Delay(hold(5, 40))
			sleep(ctx, 100*time.Millisecond)
			w.net.Delay(0)
			w.fire(FaultLatency)
		case 9:
			w.await(ctx, FaultCut, w.net.ArmWhere(faultnet.Cut, ofProtocol), 0)
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
	case <-ctx.Done():
		w.net.Disarm()
		select {
		case <-f.Fired():
		case <-time.After(500 * time.Millisecond): // a fault that waits for its reply
			select {
			case <-f.Fired():
			default:
				return
			}
		}
	}
	w.fire(name)
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

func overloaded(bson.Raw) any {
	return bson.M{
		"ok": 0, "code": 462, "codeName": "IngressRequestRateLimitExceeded", "errmsg": "injected: too many requests",
		"errorLabels": bson.A{"SystemOverloadedError", "RetryableError"},
	}
}
