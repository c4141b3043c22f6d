package multilock_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What a command is granted whose caller has left is released, and so is a place that
// it takes.
func TestCancelledDuringTheCommandLeavesNoEntry(t *testing.T) {
	t.Parallel()
	ways := maps.Clone(asks)
	ways["a claim"] = func(l *multilock.Locker, ctx context.Context, _ any, tag string, _ ...doclock.AcquireOption) (*doclock.Lease, error) {
		return l.TryAcquire(ctx, bson.M{}, tag, doclock.SkipLocked())
	}
	for name, ask := range ways {
		for _, waits := range []bool{false, true} {
			virtually(t, name, func(p *place) {
				coll, net := p.faulty()
				l := p.locker(coll, relations.Fair())
				var others []*doclock.Lease
				if waits {
					others = append(others, p.try(p.locker(p.coll, relations.Fair()), "read"))
				}
				slow := p.giveUp(net, func(ctx context.Context) error { return errOf(ask(l, ctx, flowers, "write")) }, doclock.ErrNotAcquired)
				if entered := !waits || name != "TryAcquire" && name != "a claim"; (len(p.entries("write")) == 1) != entered {
					p.Errorf("entered: %v", !entered)
				}
				must(p, slow.Let())
				p.rest(l)
				p.wantEntries(others...)
			})
		}
	}
}

// A waiter that gives up between its commands leaves no entry either, and its error
// names the holder.
func TestCancelledWhileItWaitsLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		virtually(t, name, func(p *place) {
			holder := p.try(p.locker(p.coll, rules), "write")
			l := p.locker(p.coll, rules)
			ctx, cancel := context.WithCancel(p.Context())
			time.AfterFunc(10*time.Second, cancel)
			p.want(errOf(l.Acquire(ctx, flowers, "write")), context.Canceled, doclock.ErrConflict)
			p.rest(l)
			p.wantEntries(holder)
		})
	}
}

// A confirm is granted at the moment when its caller gives up.
func TestCancelledDuringTheConfirmThatGrantedLeavesNoEntry(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		holder := p.try(p.locker(p.coll, relations.Fair()), "read")
		l := p.locker(coll, relations.Fair())
		ctx, cancel := context.WithCancel(p.Context())
		call := acquire(p, ctx, l, "write")
		p.waiting("write")
		p.release(holder)
		granting := net.Arm(faultnet.DelayReply, "findAndModify")
		wait(p, granting.Fired())
		if e := p.entries("write"); len(e) != 1 || !e[0].held() {
			p.Fatalf("not granted: %+v", e)
		}
		cancel()
		p.want(errOf(call.wait()), context.Canceled, doclock.ErrNotAcquired)
		must(p, granting.Let())
		p.rest(l)
		p.wantEntries()
	})
}
