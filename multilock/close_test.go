package multilock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

type locker = *multilock.Locker

// Close ends the Wait of a ticket. Leases stay valid, and tickets keep their places: they
// can be renewed, confirmed and released.
func TestCloseLeavesLeasesAndTicketsUsable(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		holder := p.try(l, "read")
		ticket := p.enqueue(l, "write")
		call := begin(p, func() (*doclock.Lease, error) { return ticket.Wait(p.bounded()) })
		p.queued(l, 1)
		p.rest(l)
		p.want(errOf(call.wait()), doclock.ErrClosed, doclock.ErrConflict)
		if n := len(p.entries("write")); n != 1 {
			p.Errorf("%d waiting entries", n)
		}
		ok(p, holder.Renew(p.Context()))
		p.release(holder)
		p.release(p.got(ticket.Confirm(p.Context())))
		p.wantEntries()
	})
}

// After Close a release still has the attempts of its acquire removed, by one command.
func TestReleaseAfterClose(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive())
		p.mem.LoseReplies(1, locktest.Acquires)
		lease := p.try(l, "write")
		p.rest(l)
		w.Take()
		p.release(lease)
		time.Sleep(time.Hour)
		if sent := w.Take(); len(sent) != 2 {
			p.Errorf("it sent %v, want a release and a removal", sent)
		}
	})
}

// Close names no entry of a release that ends after Close has waited. Here a waiter gets the
// lock at the moment of Close, and releases it. The scheduler decides which of them comes
// first, so the test tries it often.
func TestCloseBesideARelease(t *testing.T) {
	virtual(t, func(p *place) {
		for range 200 {
			l := p.plain(relations.ReadPreferring())
			holder := p.try(l, "write")
			next := begin(p, func() (_ struct{}, err error) {
				if lease, ended := l.Acquire(p.Context(), flowers, "write"); ended == nil {
					err = lease.Release(p.Context())
				}
				return
			})
			p.queued(l, 1)
			p.mem.Fail(1, mongo.CommandError{Code: 13}, locktest.Releases) // of the handoff: the waiter has to ask
			p.release(holder)
			p.rest(l)
			ok(p, errOf(next.wait()))
		}
		p.wantEntries()
	})
}

// Close ends a claim at once that waits for the clean-up of an ask of unknown outcome. A Close
// whose context ends first names what it leaves.
func TestCloseEndsAClaimThatCleansUp(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive(), short(time.Hour), doclock.AttemptTimeout(time.Minute))
		net.Arm(faultnet.LoseReply, "findAndModify")
		var sent atomic.Int32
		cleaning := make(chan struct{})
		net.Block(func(command string, _ []byte) bool {
			if command != "findAndModify" {
				return false
			}
			n := sent.Add(1)
			if n == 2 {
				close(cleaning)
			}
			return n > 1
		})
		waiting := begin(p, func() (*doclock.Lease, error) {
			return l.Acquire(context.Background(), byName, "write", doclock.SkipLocked())
		})
		wait(p, cleaning)
		closed := begin(p, func() (struct{}, error) { return struct{}{}, l.Close(context.Background()) })
		p.want(errOf(waiting.wait()), doclock.ErrClosed)
		if err := l.Close(p.within(time.Second)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Close may leave entries that nobody holds") {
			p.Errorf("a Close that waits for a second: %v", err)
		}
		net.Block(nil)
		net.Reset()
		ok(p, errOf(closed.wait()))
	})
}
