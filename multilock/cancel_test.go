package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// acquires are the three ways to ask, where only the error matters.
var acquires = map[string]func(p *place, ctx context.Context, l locker, tag string) error{
	"TryAcquire": func(_ *place, ctx context.Context, l locker, tag string) error {
		_, err := l.TryAcquire(ctx, flowers, tag)
		return err
	},
	"Enqueue": func(_ *place, ctx context.Context, l locker, tag string) error {
		_, err := l.Enqueue(ctx, flowers, tag)
		return err
	},
	"Acquire": func(_ *place, ctx context.Context, l locker, tag string) error {
		_, err := l.Acquire(ctx, flowers, tag)
		return err
	},
	"Do": func(p *place, ctx context.Context, l locker, tag string) error {
		return l.Do(ctx, flowers, tag, func(context.Context, *doclock.Lease) error {
			p.Error("Do called fn")
			return nil
		})
	},
}

func TestCancelledBeforeTheCommandSendsNone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range acquires {
		err := ask(p, ctx, l, "write")
		p.want(err, context.Canceled)
		p.wantNot(err, doclock.ErrOutcomeUnknown)
		if sent := w.commands(); len(sent) != 0 {
			t.Errorf("%s sent %v", name, sent)
		}
	}
	p.wantEntries()
}

// The caller has its answer at once. The command goes on in the background, and
// what it was granted is released.
func TestCancelledDuringTheCommandLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, ask := range acquires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Fair())
			slow := net.Arm(faultnet.DelayReply, "findAndModify")
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(t, func() (struct{}, error) { return struct{}{}, ask(p, ctx, l, "write") })
			wait(t, slow.Fired())
			if n := len(p.entries("write")); n != 1 {
				t.Fatalf("%d entries while the command is under way", n)
			}
			cancel()
			_, err := call.wait() // the reply is still on its way
			p.want(err, context.Canceled, doclock.ErrNotAcquired)
			if err := slow.Let(); err != nil {
				t.Fatal(err)
			}
			p.rest(l)
			p.wantEntries()
		})
	}
}

// The same for a command that entered a waiting entry.
func TestCancelledDuringAnEnqueueLeavesNoWaitingEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	holder := p.try(p.locker(p.coll, relations.Fair()), "read")
	l := p.locker(coll, relations.Fair())
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := acquire(t, ctx, l, "write")
	wait(t, slow.Fired())
	p.waiting("write")
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrNotAcquired)
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	p.rest(l)
	p.wantEntries(holder)
}

func TestCancelledWhileRefusedLeavesNoEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
	l := p.locker(coll, relations.Exclusive())
	ctx, cancel := context.WithCancel(t.Context())
	call := acquire(t, ctx, l, "write")
	p.eventually("it asks a few times", func() bool { return w.count() > 5 })
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrConflict)
	p.rest(l)
	p.wantEntries(holder)
}

func TestCancelledWhileItsEntryWaitsLeavesNoEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder := p.try(p.locker(p.coll, relations.Fair()), "read")
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	call := acquire(t, ctx, l, "write")
	p.eventually("it asks a few times", func() bool { return w.count() > 2 })
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrConflict)
	p.rest(l)
	p.wantEntries(holder)
}

// A confirm is granted at the moment when its caller gives up.
func TestCancelledDuringTheConfirmThatGrantedLeavesNoEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	holder := p.try(p.locker(p.coll, relations.Fair()), "read")
	l := p.locker(coll, relations.Fair())
	ctx, cancel := context.WithCancel(t.Context())
	call := acquire(t, ctx, l, "write")
	p.waiting("write")
	slow := net.Arm(faultnet.DelayReply, "findAndModify") // a confirm, refused
	wait(t, slow.Fired())
	granting := net.Arm(faultnet.DelayReply, "findAndModify")
	p.release(holder)
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	wait(t, granting.Fired())
	if e := p.entries("write"); len(e) != 1 || !e[0].held() {
		t.Fatalf("not granted: %+v", e)
	}
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrNotAcquired)
	if err := granting.Let(); err != nil {
		t.Fatal(err)
	}
	p.rest(l)
	p.wantEntries()
}
