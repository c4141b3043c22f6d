package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
)

// cuts are the faults after which a command's outcome is unknown.
var cuts = []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply, faultnet.Stall}

// A filter that may find another document the next time is sent once. The outcome
// stays unknown, and the entry of the command is released. Once the acquire has met its
// document, it is repeated.
func TestUnknownOutcomeOfUnpinnedAcquireIsReported(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		virtually(t, cut.String(), func(p *place) {
			coll, net := p.faulty()
			l := p.locker(coll, relations.Fair(), doclock.AttemptTimeout(time.Second))
			holder := p.try(p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour)), "read")
			for _, tag := range []string{"read", "write"} { // granted, or waiting
				fault := net.Arm(cut, "findAndModify")
				lease, err := l.Acquire(p.bounded(), byName, tag)
				wait(p, fault.Fired())
				p.want(err, doclock.ErrNotAcquired)
				if lease != nil || driverError(err) == nil {
					p.Errorf("lease %v, error %v", lease, err)
				}
				p.eventually("the entry is looked for no more", func() bool { return l.Leftovers() == 0 })
				p.wantEntries(holder)
			}
			call := begin(p, func() (doclock.Lease, error) { return l.Acquire(p.bounded(), byName, "write") })
			p.waiting("write")
			wait(p, net.Arm(cut, "findAndModify").Fired())
			p.release(holder)
			p.wantEntries(p.granted(call))
		})
	}
}

// Rule 22: an acquire that is executed after its caller gave up leaves an entry
// without a holder, for at most TTL + tolerance. It delays others, and is never a
// second holder.
func TestRule22ALateAcquireDelaysOthersAndIsNoHolder(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		const ttl, tolerance = 10 * time.Second, 5 * time.Second
		ann := p.locker(coll, relations.Exclusive(), doclock.TTL(ttl), doclock.ClockTolerance(tolerance))
		bob := p.locker(p.coll, relations.Exclusive())
		held := net.Arm(faultnet.Hold, "findAndModify")
		ctx, cancel := context.WithCancel(p.Context())
		call := acquire(p, ctx, ann, "write")
		wait(p, held.Fired())
		cancel()
		p.want(errOf(call.wait()), context.Canceled, doclock.ErrNotAcquired)
		p.rest(ann) // the clean-up found nothing
		p.wantEntries()

		must(p, held.Let())
		late := p.entries("write")
		if len(late) != 1 || late[0].Expires.Sub(late[0].Since) != ttl+tolerance {
			p.Fatalf("the late acquire left %+v", late)
		}
		p.wantEntries(p.acquire(bob, "write"))
		if e := p.entries("write")[0]; e.Since.Before(late[0].Expires) {
			p.Errorf("let in %v before the late entry expired", late[0].Expires.Sub(e.Since))
		}
	})
}

// A caller who gives up on a resume holds nothing, and the token stays good.
func TestResumeGivenUp(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive())
		token := p.detach(p.try(l, "write"))
		before, cancel := context.WithCancel(p.Context())
		cancel()
		p.want(errOf(l.Resume(before, flowers, token)), context.Canceled, doclock.ErrNotAcquired)
		p.want(l.Touch(before, flowers, token), context.Canceled)
		if e := p.entries("write")[0]; !e.Detached {
			p.Error("a resume was sent")
		}
		slow := p.giveUp(net, func(ctx context.Context) error {
			_, err := l.Resume(ctx, flowers, token)
			p.wantVerdict("Resume", err, doclock.ErrNotAcquired)
			return err
		})
		must(p, slow.Let())
		p.release(p.resume(l, token))
	})
}

// If another user has resumed a lease, its release and its delete did nothing, also
// if the first attempt is of unknown outcome. Without it a document counts as
// deleted that the other user works on.
func TestRule23AnEndOfUnknownOutcomeAfterAnotherResume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end      func(doclock.Lease, context.Context) error
		released bool // by the other user
		want     error
	}{
		"release":                 {(doclock.Lease).Release, false, doclock.ErrLost},
		"delete":                  {(doclock.Lease).Delete, false, doclock.ErrLost},
		"release after a release": {(doclock.Lease).Release, true, doclock.ErrOutcomeUnknown},
		"delete after a release":  {(doclock.Lease).Delete, true, doclock.ErrOutcomeUnknown},
	} {
		virtually(t, name, func(p *place) {
			coll, net := p.faulty()
			here := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
			there := p.locker(p.coll, relations.Exclusive())
			token := p.detach(p.try(there, "write"))
			lease := p.resume(here, token)
			other := p.resume(there, token)
			if c.released {
				p.release(other)
			}
			fault := net.Arm(faultnet.LoseRequest, "findAndModify")
			err := c.end(lease, p.bounded())
			wait(p, fault.Fired())
			p.want(err, c.want)
			if !c.released {
				p.wantEntries(other)
			}
		})
	}
}

// The first request of a release is lost, an operator breaks the entry and somebody is let
// in: the repeat finds nothing while the lease's time lasts, and must not take the removal
// for its own. Where nobody has broken the entry, it was its own.
func TestAReleaseAfterABreakIsUnknown(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]bool{"broken": true, "released by itself": false} {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.WritePreferring())
			lease := p.try(l, "write")
			if breaks {
				p.mem.LoseRequests(1, locktest.Releases)
			} else {
				p.mem.LoseReplies(1, locktest.Releases)
			}
			time.AfterFunc(time.Millisecond/2, func() { // before the connection breaks
				if !breaks {
					return
				}
				lock, err := admin.Inspect(p.Context(), p.coll, flowers)
				if err == nil && len(lock.Entries) == 1 {
					_, err = admin.Break(p.Context(), p.coll, lock.Entries[0])
				}
				ok(p, err)
				p.try(p.plain(relations.WritePreferring()), "write")
			})
			err := lease.Release(p.Context())
			if breaks {
				p.want(err, doclock.ErrOutcomeUnknown)
			} else {
				ok(p, err)
			}
		})
	}
}
