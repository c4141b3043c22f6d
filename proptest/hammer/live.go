package hammer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// live works under the lease, and ends it in one of several ways.
func (a *acquired) live() {
	a.look()
	for range a.rng.IntN(4) {
		switch a.rng.IntN(7) {
		case 0, 1:
			a.update()
		case 2, 3:
			a.renew()
		case 4:
			time.Sleep(time.Duration(a.rng.IntN(30)) * time.Millisecond)
		case 5:
			if a.rng.IntN(3) == 0 {
				a.keepAlive()
			}
		case 6:
			if a.document.Terms {
				a.downgrade()
			}
		}
		a.look()
	}
	if a.document.Terms && a.rng.IntN(4) == 0 {
		a.detach()
		a.look()
		return
	}
	switch n := a.rng.IntN(20); {
	case n < 9:
		a.release()
	case n < 15:
		a.updateAndRelease()
	case n < 17:
		a.vanish()
	default:
		a.pause()
		for range 1 + a.rng.IntN(2) {
			switch a.rng.IntN(3) {
			case 0:
				a.renew()
			default:
				a.update()
			}
			a.look()
		}
		if a.rng.IntN(2) == 0 {
			a.release()
		} else {
			a.updateAndRelease()
		}
	}
	a.look()
}

// look records the lease's validity as its holder sees it.
func (a *acquired) look() {
	o := history.Operation{
		Process: a.Process, Client: a.number, Number: a.recorder.Number(), Kind: history.Look,
		Document: a.document.ID, Tag: a.tag, Wall: time.Now().UnixNano() + a.ahead.Load(), Call: a.clock.Now(),
	}
	a.name(&o)
	o.Remaining = int64(a.lease.Remaining())
	over := a.lease.Err()
	if errors.Is(over, doclock.ErrOutcomeUnknown) {
		return // a downgrade is under way: if it is refused, the lease goes on
	}
	o.Return = a.clock.Now()
	switch {
	case o.Remaining > 0:
		o.Outcome = history.StillValid
	case over != nil:
		o.Outcome = history.Over
	default:
		return
	}
	a.out.Operation(o)
}

func (a *acquired) renew() {
	a.do(history.Renew, "", func() error {
		ctx, cancel := a.impatient()
		defer cancel()
		return a.lease.Renew(ctx)
	})
}

func (a *acquired) keepAlive() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kept := a.lease.KeepAlive(ctx)
	for range 4 {
		sleep(kept, time.Duration(a.document.TTL)*time.Millisecond/3)
		a.look()
	}
}

// write is an update that adds one line to the document's log, as operators or
// as a pipeline.
func (a *acquired) write() (name string, update any) {
	a.writes++
	name = fmt.Sprintf("%s%d.%d.%d", history.WriteMark, a.Process, a.number, a.writes)
	entry := fmt.Sprintf("%d/%s", a.lease.Fence(), name)
	if a.rng.IntN(2) == 0 {
		return name, bson.A{bson.M{"$set": bson.M{"log": bson.M{"$concatArrays": bson.A{"$log", bson.A{entry}}}}}}
	}
	return name, bson.M{"$push": bson.M{"log": entry}}
}

func (a *acquired) update() {
	name, update := a.write()
	a.do(history.Update, name, func() error {
		ctx, cancel := a.impatient()
		defer cancel()
		return a.lease.Update(ctx, update)
	})
}

func (a *acquired) updateAndRelease() {
	name, update := a.write()
	a.do(history.UpdateAndRelease, name, func() error {
		ctx, cancel := a.impatient()
		defer cancel()
		return a.lease.UpdateAndRelease(ctx, update)
	})
}

func (a *acquired) release() {
	a.do(history.Release, "", func() error {
		ctx, cancel := a.impatient()
		defer cancel()
		return a.lease.Release(ctx)
	})
}

// pause stops as long as a long garbage collection.
func (a *acquired) pause() {
	life := time.Duration(a.document.TTL+a.document.Tolerance) * time.Millisecond
	time.Sleep(life + time.Duration(a.rng.IntN(100)-20)*time.Millisecond)
	a.out.Fault(FaultPaused)
}
