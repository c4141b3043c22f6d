package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// downgrade downgrades a lease.
func (p *place) downgrade(lease *doclock.Lease, tag string) *doclock.Lease {
	p.Helper()
	next, err := lease.Downgrade(p.bounded(), tag)
	if err != nil {
		p.Fatalf("Downgrade: %v", err)
	}
	return next
}

// A writer becomes a reader in one command, and other readers are let in beside
// it. The old lease sends nothing more.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair(), doclock.Owner("ann"))
	lease := p.try(l, "write", doclock.OwnedBy("a job"))
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}); err != nil {
		t.Fatal(err)
	}
	w.commands()
	next := p.downgrade(lease, "read")
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release after a Downgrade: %v", err)
	}
	p.want(lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}), doclock.ErrReleased)
	if n := len(w.commands()); n != 1 {
		t.Errorf("Downgrade and what followed sent %d commands", n)
	}
	if next.ID() == lease.ID() || next.Fence() <= lease.Fence() || next.Tag() != "read" || next.Err() != nil {
		t.Errorf("%v with %d after %v with %d: %v", next.ID(), next.Fence(), lease.ID(), lease.Fence(), next.Err())
	}
	p.wantEntries(next)
	if e := p.entries("read")[0]; e.Owner != "a job" {
		t.Errorf("the owner is %q", e.Owner)
	}
	other := p.try(l, "read")
	if err := next.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}); err != nil {
		t.Error(err)
	}
	if err := next.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	p.release(next)
	p.release(other)
	p.release(p.try(l, "write"))
}

// A refusal names who is in the way, and the lease goes on.
func TestDowngradeIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease, other := p.try(l, "read"), p.try(l, "read")
	_, err := lease.Downgrade(t.Context(), "write")
	if c := p.conflict(err); c.Tag != "write" || len(c.Holders) != 1 || c.Holders[0].ID != other.ID() || c.RetryAfter <= 0 {
		t.Errorf("the conflict is %+v", c)
	}
	p.wantNot(err, doclock.ErrNotAcquired)
	p.want(lease.Err(), nil)
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}); err != nil {
		t.Error(err)
	}
	p.release(other)
	p.release(p.downgrade(lease, "write"))
	p.wantEntries()
}

// Before the time of HoldAtLeast the own entry is in the way.
func TestDowngradeIsRefusedBeforeTheTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease := p.try(l, "write", doclock.HoldAtLeast(time.Minute))
	_, err := lease.Downgrade(t.Context(), "read")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() || c.RetryAfter < 50*time.Second || c.Holders[0].AtLeast != c.RetryAfter {
		t.Errorf("the conflict is %+v", c)
	}
	p.want(lease.Err(), nil)
	p.release(lease)
}

// A refusal that only a repeat has found may have nobody to name.
func TestConflictOfADowngradeWhoseHoldersHaveLeft(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease := p.try(l, "write")
	p.change(bson.M{"$set": bson.M{"lock.tags.write.0.n": 1}}) // as the refused attempt has
	_, err := lease.Downgrade(t.Context(), "read")
	c := p.conflict(err)
	if len(c.Holders) != 0 || !strings.Contains(c.Error(), "have left since") || strings.Contains(c.Error(), "by , ") {
		t.Errorf("the conflict is %v", c)
	}
	p.release(p.downgrade(lease, "read"))
}

// A downgrade of unknown outcome is repeated.
func TestUnknownOutcomeOfADowngradeIsRepeated(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Fair(), doclock.AttemptTimeout(time.Second))
			lease := p.try(l, "write")
			fault := net.Arm(cut, "findAndModify")
			next := p.downgrade(lease, "read")
			wait(t, fault.Fired())
			p.wantEntries(next)
			if e := p.entries("read")[0]; e.Fence != next.Fence() {
				t.Errorf("the fencing token is %d in the document, %d in the lease", e.Fence, next.Fence())
			}
			p.release(next)
			p.wantEntries()
		})
	}
}

// If the caller gives up, no entry stays: neither one that was made, nor one that
// a late attempt would make.
func TestDowngradeGivenUp(t *testing.T) {
	t.Parallel()
	for _, cut := range []faultnet.Kind{faultnet.DelayReply, faultnet.Hold} {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Fair())
			lease := p.try(l, "write")
			fault := net.Arm(cut, "findAndModify")
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(t, func() (*doclock.Lease, error) { return lease.Downgrade(ctx, "read") })
			wait(t, fault.Fired())
			cancel()
			next, err := call.wait()
			p.want(err, context.Canceled, doclock.ErrOutcomeUnknown)
			if next != nil {
				t.Error("a lease beside an error")
			}
			if cut == faultnet.Hold {
				p.eventually("the old entry is released", func() bool { return len(p.entries()) == 0 })
			}
			if err := fault.Let(); err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(p.bounded()); err != nil && !errors.Is(err, doclock.ErrOutcomeUnknown) {
				t.Errorf("Release: %v", err)
			}
			p.eventually("no entry is left", func() bool { return len(p.entries()) == 0 })
		})
	}
}

// A waiter of the same process asks after a downgrade, and is let in beside the
// new lease.
func TestDowngradeWakesTheWaiters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease := p.try(l, "write")
	call := begin(t, func() (*doclock.Lease, error) { return l.Acquire(p.bounded(), flowers, "read") })
	p.eventually("the reader waits", func() bool { return l.Waiters(1) == 1 })
	begun := time.Now()
	next := p.downgrade(lease, "read")
	first, err := call.wait()
	if err != nil {
		t.Fatal(err)
	}
	if passed := time.Since(begun); passed >= 10*time.Second {
		t.Errorf("the waiter was let in after %v", passed)
	}
	p.wantEntries(next, first)
	p.release(first)
	p.release(next)
}

// A waiter that the new tag keeps out is let in after the new lease's release.
func TestReleaseAfterADowngradeWakesTheWaiters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.ReadPreferring())
	lease := p.try(l, "write")
	call := begin(t, func() (*doclock.Lease, error) { return l.Acquire(p.bounded(), flowers, "write") })
	p.eventually("the writer waits", func() bool { return l.Waiters(1) == 1 })
	next := p.downgrade(lease, "read")
	p.release(next)
	writer, err := call.wait()
	if err != nil {
		t.Fatal(err)
	}
	p.release(writer)
	p.wantEntries()
}

// Two goroutines downgrade one lease at the same time: one of them has the new
// lease.
func TestTwoDowngradesOfOneLease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease := p.try(l, "write")
	one := begin(t, func() (*doclock.Lease, error) { return lease.Downgrade(p.bounded(), "read") })
	other := begin(t, func() (*doclock.Lease, error) { return lease.Downgrade(p.bounded(), "read") })
	next, err := one.wait()
	second, otherErr := other.wait()
	if next == nil {
		next, err, second, otherErr = second, otherErr, next, err
	}
	if err != nil || second != nil {
		t.Fatalf("%v, %v", err, otherErr)
	}
	p.want(otherErr, doclock.ErrReleased)
	p.wantEntries(next)
	p.release(next)
}

// After a downgrade Do's own release sends nothing. The context of Do has ended, and
// the new lease is kept alive with one from outside.
func TestDowngradeInDo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	outside := p.bounded()
	var next *doclock.Lease
	err := l.Do(outside, flowers, "write", func(ctx context.Context, lease *doclock.Lease) (err error) {
		if next, err = lease.Downgrade(ctx, "read"); err != nil {
			return err
		}
		if cause := context.Cause(ctx); !errors.Is(cause, doclock.ErrReleased) {
			t.Errorf("Do's context: %v", cause)
		}
		if kept := next.KeepAlive(outside); kept.Err() != nil {
			t.Error(context.Cause(kept))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(next)
	p.release(next)
}

// If the downgrade was executed and its reply never comes, the clean-up removes
// the new entry by its id.
func TestDowngradeWithoutAReplyIsCleanedUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair(), doclock.AttemptTimeout(time.Second))
	lease := p.try(l, "write")
	fault := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(t, func() (*doclock.Lease, error) { return lease.Downgrade(ctx, "read") })
	wait(t, fault.Fired())
	p.eventually("the new entry is made", func() bool { return len(p.entries("read")) == 1 })
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrOutcomeUnknown)
	p.eventually("it is removed", func() bool { return len(p.entries()) == 0 })
	p.want(lease.Release(p.bounded()), doclock.ErrOutcomeUnknown)
}
