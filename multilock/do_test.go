package multilock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestDoHoldsTheLockAndReleasesIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.WritePreferring())
	called := 0
	var doc bson.M
	err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		called++
		p.wantEntries(lease)
		if lease.Tag() != "write" || ctx.Err() != nil || doc["name"] != "flowers" {
			t.Errorf("inside: tag %q, context %v, document %v", lease.Tag(), ctx.Err(), doc)
		}
		return nil
	}, doclock.Into(&doc))
	if err != nil || called != 1 {
		t.Errorf("Do called fn %d times and returned %v", called, err)
	}
	p.wantEntries()
	if sent := w.commands(); len(sent) != 2 {
		t.Errorf("it sent %v", sent)
	}
}

func TestDoReturnsTheErrorOfFnAndReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	fault := errors.New("fn's own")
	err := l.Do(t.Context(), flowers, "write", func(context.Context, *doclock.Lease) error { return fault })
	p.want(err, fault)
	p.wantEntries()
}

func TestDoReleasesWhenFnPanics(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	func() {
		defer func() {
			if r := recover(); r != "fn's own" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = l.Do(t.Context(), flowers, "write", func(context.Context, *doclock.Lease) error { panic("fn's own") })
	}()
	p.wantEntries()
}

func TestDoReleasesWhenFnCallsGoexit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Do(t.Context(), flowers, "write", func(context.Context, *doclock.Lease) error {
			runtime.Goexit()
			return nil
		})
		t.Error("Do returned")
	}()
	wait(t, done)
	p.wantEntries()
}

// The release does not depend on the context that bounded the wait and the work.
func TestDoReleasesAfterItsContextHasEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	cause := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := l.Do(ctx, flowers, "write", func(ctx context.Context, _ *doclock.Lease) error {
		cancel(cause)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	p.want(err, cause)
	p.wantNot(err, doclock.ErrLost)
	p.wantEntries()
}

func TestDoRenews(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(2*time.Second), doclock.ClockTolerance(0))
	err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		first := p.entries("write")[0].Expires
		p.eventually("the entry outlives its TTL", func() bool {
			return ctx.Err() != nil || p.entries("write")[0].Expires.Sub(first) > 2*time.Second
		})
		return context.Cause(ctx)
	})
	if err != nil {
		t.Error(err)
	}
	p.wantEntries()
}

// The entry is removed while fn runs: fn's context ends with the cause ErrLost,
// and Do returns ErrLost.
func TestDoReportsALoss(t *testing.T) {
	t.Parallel()
	fault := errors.New("fn's own")
	for name, loss := range map[string]func(*place){
		"the entry is deleted":    func(p *place) { p.erase("write") },
		"the document is deleted": func(p *place) { p.remove() },
	} {
		for _, returned := range []error{nil, fault} {
			p := newPlace(t)
			l := p.locker(p.coll, relations.Exclusive(), short(300*time.Millisecond))
			err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
				loss(p)
				wait(t, ctx.Done())
				p.want(context.Cause(ctx), doclock.ErrLost)
				p.want(lease.Err(), doclock.ErrLost)
				return returned
			})
			p.want(err, doclock.ErrLost)
			if returned != nil {
				p.want(err, fault)
			}
			if t.Failed() {
				t.Fatalf("%s, fn returned %v", name, returned)
			}
		}
	}
}

// fn returns before the next renewal and does not learn of the loss. The release
// finds it.
func TestDoFindsTheLossWhenItReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ann, bob := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	var successor *doclock.Lease
	err := ann.Do(t.Context(), flowers, "write", func(ctx context.Context, _ *doclock.Lease) error {
		p.erase("write")
		successor = p.try(bob, "write")
		return ctx.Err()
	})
	p.want(err, doclock.ErrLost)
	p.wantEntries(successor)
}

// fn releases the lock itself. Do sends no second release, and returns the
// verdict of fn's.
func TestDoWhoseFnReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		err := lease.Release(ctx)
		p.want(context.Cause(ctx), doclock.ErrReleased)
		return err
	})
	if sent := w.commands(); err != nil || len(sent) != 2 {
		t.Errorf("Do returned %v and sent %v", err, sent)
	}
	err = l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		return lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"total": 1}})
	})
	if sent := w.commands(); err != nil || len(sent) != 2 {
		t.Errorf("Do returned %v and sent %v", err, sent)
	}
	err = l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		p.erase("write")
		_ = lease.Release(ctx)
		return nil
	})
	p.want(err, doclock.ErrLost)
	if sent := w.commands(); len(sent) != 2 {
		t.Errorf("it sent %v", sent)
	}
	if total := p.raw().Lookup("total").AsInt64(); total != 2 {
		t.Errorf("total is %d", total)
	}
	p.wantEntries()
}

func TestDoDoesNotCallFnWithoutTheLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	holder := p.try(l, "write")
	fn := func(context.Context, *doclock.Lease) error {
		t.Error("fn was called")
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	p.want(l.Do(ctx, flowers, "read", fn), doclock.ErrConflict, context.DeadlineExceeded)
	p.want(l.Do(t.Context(), bson.M{"_id": 2}, "read", fn), doclock.ErrNotFound)
	p.want(l.Do(t.Context(), flowers, "skim", fn), doclock.ErrInvalidArgument)
	p.wantEntries(holder)
}

// Many run Do at once: one runs after the other, and each of them counts.
func TestDoSerialisesReadModifyWrite(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	const workers = 12
	var calls []*pending[struct{}]
	for range workers {
		calls = append(calls, begin(t, func() (struct{}, error) {
			var doc struct{ Total int }
			return struct{}{}, l.Do(p.bounded(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
				return lease.Update(ctx, bson.M{"$set": bson.M{"total": doc.Total + 1}})
			}, doclock.Into(&doc))
		}))
	}
	for call := range slices.Values(calls) {
		if _, err := call.wait(); err != nil {
			t.Error(err)
		}
	}
	if total := p.raw().Lookup("total").AsInt64(); total != 1+workers {
		t.Errorf("total is %d after %d increments of 1", total, workers)
	}
}

// fn's context ends with the lease. The caller has not given up, so the result of
// the lease's own commands is returned without doubt.
func TestDoWhoseFnLearnsTheVerdictInItsOwnContext(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	set := bson.M{"$set": bson.M{"total": 7}}
	for name, command := range map[string]func(context.Context, *doclock.Lease) error{
		"Update":           func(ctx context.Context, lease *doclock.Lease) error { return lease.Update(ctx, set) },
		"UpdateAndRelease": func(ctx context.Context, lease *doclock.Lease) error { return lease.UpdateAndRelease(ctx, set) },
		"Renew":            func(ctx context.Context, lease *doclock.Lease) error { return lease.Renew(ctx) },
		"Release":          func(ctx context.Context, lease *doclock.Lease) error { return lease.Release(ctx) },
	} {
		err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
			p.erase("write")
			child, cancel := context.WithTimeout(lease.KeepAlive(ctx), patience)
			defer cancel()
			return command(child, lease)
		})
		p.want(err, doclock.ErrLost)
		p.wantNot(err, doclock.ErrOutcomeUnknown)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if total := p.raw().Lookup("total").AsInt64(); total != 1 {
		t.Errorf("total is %d", total)
	}
}

// A caller that gives up has an answer at once.
func TestDoWhoseCallerGivesUpDuringFnsRelease(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"Do's context", "a context of fn's own"} {
		p := newPlace(t)
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive())
		outer, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := l.Do(outer, flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
			giveUp := cancel
			if level != "Do's context" {
				ctx, giveUp = context.WithTimeout(ctx, 500*time.Millisecond)
				defer giveUp()
			}
			slow := net.Arm(faultnet.DelayReply, "findAndModify")
			call := begin(t, func() (struct{}, error) { return struct{}{}, lease.Release(ctx) })
			wait(t, slow.Fired())
			if level == "Do's context" {
				giveUp()
			}
			_, err := call.wait()
			p.want(err, doclock.ErrOutcomeUnknown)
			if err := slow.Let(); err != nil {
				t.Fatal(err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: the release came to %v", level, err)
		}
		p.wantEntries()
	}
}
