package multilock_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

// What a command is granted whose caller has left is released, and so is a place that
// it takes.
func TestCancelledDuringTheCommandLeavesNoEntry(t *testing.T) {
	t.Parallel()
	ways := maps.Clone(asks)
	ways["a claim"] = func(l *multilock.Locker, ctx context.Context, _ any, tag string, _ ...doclock.AcquireOption) (doclock.Lease, error) {
		return l.TryAcquire(ctx, byName, tag, doclock.SkipLocked())
	}
	for name, ask := range ways {
		for _, waits := range []bool{false, true} {
			virtually(t, name, func(p *place) {
				coll, net := p.faulty()
				l := p.locker(coll, relations.Fair())
				var others []doclock.Lease
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

// However a wait ends, the caller is told at once, and who is in the way. Its function has not
// run, and no entry stays behind.
func TestAWaitThatEndsNamesTheHolderAndLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for rule, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		for name, c := range map[string]struct {
			maxWait time.Duration
			end     func(p *place, l locker, w *fixture.Commands, cancel func()) // after ten seconds
			took    time.Duration
			is      error
		}{
			"cancelled between two polls": {time.Hour, func(_ *place, _ locker, _ *fixture.Commands, cancel func()) { cancel() }, 10 * time.Second, context.Canceled},
			"cancelled during a poll": {time.Hour, func(p *place, _ locker, w *fixture.Commands, cancel func()) {
				p.mem.Delay(1, 20*time.Minute)
				n := w.Count()
				p.eventually("it asks again", func() bool { return w.Count() > n })
				cancel()
			}, 0, context.Canceled},
			"its context's time is over": {time.Hour, func(*place, locker, *fixture.Commands, func()) {}, 40 * time.Second, context.DeadlineExceeded},
			"its MaxWait is over":        {20 * time.Second, func(*place, locker, *fixture.Commands, func()) {}, 20 * time.Second, doclock.ErrConflict},
			"Close": {time.Hour, func(p *place, l locker, w *fixture.Commands, _ func()) {
				p.rest(l)
				if n := len(p.entries()); n != 1 {
					p.Errorf("%d entries after Close", n)
				}
				w.Take()
			}, 10 * time.Second, doclock.ErrClosed},
		} {
			virtually(t, rule+", "+name, func(p *place) {
				holder := p.try(p.locker(p.coll, rules, doclock.TTL(time.Hour)), "write")
				coll, w := p.watched()
				l := p.locker(coll, rules)
				ctx, cancel := context.WithTimeout(p.Context(), 40*time.Second)
				defer cancel()
				begun := time.Now()
				call := begin(p, func() (time.Duration, error) {
					err := l.Do(ctx, flowers, "write", func(context.Context, doclock.Lease) error { p.Error("it ran"); return nil }, doclock.MaxWait(c.maxWait))
					return time.Since(begun), err
				})
				time.Sleep(10 * time.Second)
				c.end(p, l, w, cancel)
				took, err := call.wait()
				if sent := w.Take(); c.is == doclock.ErrClosed && len(sent) > 0 {
					p.Errorf("it sent %v after Close", sent)
				}
				if c.took > 0 && took != c.took {
					p.Errorf("it took %v", took)
				}
				p.wantVerdict("Do", err, doclock.ErrNotAcquired)
				p.want(err, c.is)
				if c.is != context.DeadlineExceeded {
					p.wantNot(err, context.DeadlineExceeded)
				}
				if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
					p.Errorf("in the way: %+v", c.Holders)
				}
				p.rest(l)
				p.wantEntries(holder)
			})
		}
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
