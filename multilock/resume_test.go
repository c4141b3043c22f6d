package multilock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// detach detaches a lease and returns the token.
func (p *place) detach(lease *doclock.Lease) string {
	p.Helper()
	token, err := lease.Detach(p.bounded())
	if err != nil {
		p.Fatalf("Detach: %v", err)
	}
	return token
}

// resume makes a lease by the token.
func (p *place) resume(l *multilock.Locker, token string, opts ...doclock.AcquireOption) *doclock.Lease {
	p.Helper()
	lease, err := l.Resume(p.bounded(), token, opts...)
	if err != nil {
		p.Fatalf("Resume: %v", err)
	}
	return lease
}

// gone checks that the token is worth nothing.
func (p *place) gone(l *multilock.Locker, token string) {
	p.Helper()
	lease, err := l.Resume(p.bounded(), token)
	p.want(err, doclock.ErrLost, doclock.ErrNotAcquired)
	if lease != nil {
		p.Error("a lease beside an error")
	}
	p.want(l.Touch(p.bounded(), token), doclock.ErrLost)
}

// A lease is detached in one process and resumed in another, with one command
// each, and others see its owner all the time.
func TestDetachAndResume(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	here := p.locker(coll, relations.Exclusive(), doclock.Owner("ann"))
	there := p.locker(coll, relations.Exclusive(), doclock.Owner("bob"))
	lease := p.try(here, "write")
	var token string
	p.sends(w, 1, "Detach", func() (err error) { token, err = lease.Detach(t.Context()); return err })
	p.want(lease.Err(), doclock.ErrReleased)
	ok(t, lease.Release(t.Context()))
	_, err := there.TryAcquire(t.Context(), flowers, "write")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].Owner != "ann" || c.Holders[0].Since.IsZero() {
		t.Errorf("in the way of others: %+v", c.Holders)
	}
	var doc bson.M
	var resumed *doclock.Lease
	p.sends(w, 1, "Resume", func() (err error) { resumed, err = there.Resume(t.Context(), token, doclock.Into(&doc)); return err })
	p.wantDocument("Into", doc, whole)
	if resumed.ID() == lease.ID() || resumed.Fence() <= lease.Fence() || resumed.Tag() != "write" {
		t.Errorf("%v with %d after %v with %d", resumed.ID(), resumed.Fence(), lease.ID(), lease.Fence())
	}
	p.wantEntries(resumed)
	p.sends(w, 1, "Touch", func() error { return there.Touch(t.Context(), token) })
	_, err = here.TryAcquire(t.Context(), flowers, "write")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].Owner != "bob" {
		t.Errorf("in the way of others: %+v", c.Holders)
	}
	must(t, resumed.UpdateAndRelease(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	p.gone(here, token)
	p.release(p.try(here, "write"))
}

// Tokens that are not of this Locker, and all tokens after Close, are refused before
// anything is sent. internal/engine has what makes a token another place's.
func TestTokensAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	other := coll.Database().Collection(coll.Name() + "2")
	closed := p.locker(coll, relations.Exclusive())
	p.rest(closed)
	for name, c := range map[string]struct {
		l     *multilock.Locker
		token string
		is    error
	}{
		"empty":              {l, "", doclock.ErrInvalidArgument},
		"another collection": {p.locker(other, relations.Exclusive()), token, doclock.ErrInvalidArgument},
		"closed":             {closed, token, doclock.ErrClosed},
	} {
		p.sends(w, 0, name, func() error { return errOf(c.l.Resume(t.Context(), c.token)) }, c.is, doclock.ErrNotAcquired)
		p.sends(w, 0, name, func() error { return c.l.Touch(t.Context(), c.token) }, c.is)
	}
}

// If the document can't be decoded, or its decoding panics, the entry stays for the next
// resume.
func TestResumeIntoWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	for _, into := range []doclock.AcquireOption{doclock.Into(&unreadable{}), doclock.Into(&panicking{})} {
		_ = recovered(func() {
			p.want(errOf(l.Resume(t.Context(), token, into)), doclock.ErrNotAcquired)
		})
		if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
			t.Errorf("the entry is %+v", e)
		}
	}
	p.release(p.resume(l, token))
	p.wantEntries() // no remainder for a lease that nobody got
}

// A resume doesn't wait, and gives what was acquired.
func TestOptionsOfResume(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive(), doclock.Owner("the process"))
		token := p.detach(p.try(l, "write", doclock.TTL(time.Minute)))
		for name, option := range map[string]doclock.AcquireOption{
			"MaxWait": doclock.MaxWait(0), "HoldAtLeast": doclock.HoldAtLeast(time.Second), "nil": nil, "Into nothing": doclock.Into(nil),
		} {
			if _, err := l.Resume(p.Context(), token, option); !errors.Is(err, doclock.ErrInvalidArgument) {
				p.Errorf("%s: %v", name, err)
			}
		}
		lease := p.resume(l, token)
		if left := lease.Remaining(); left < 50*time.Second {
			p.Errorf("%v left of the TTL of the acquire", left)
		}
		if e := p.entries("write")[0]; e.Owner != "the process" {
			p.Errorf("the owner is %q", e.Owner)
		}
		lease = p.resume(l, p.detach(lease), doclock.TTL(2*time.Minute), doclock.Owner("ann"))
		if left := lease.Remaining(); left < 110*time.Second {
			p.Errorf("%v left of the TTL of the resume", left)
		}
		if e := p.entries("write")[0]; e.Owner != "ann" {
			p.Errorf("the owner is %q", e.Owner)
		}
		p.release(lease)
	})
}

// A waiter of the process that detached is granted the lock once another process
// has released it.
func TestWaitersPollAfterADetach(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	here := p.locker(p.coll, relations.Exclusive(), doclock.TTL(doclock.MaxTTL))
	there := p.locker(p.coll, relations.Exclusive())
	holder := p.try(here, "write")
	next := acquire(t, p.bounded(), here, "write")
	p.queued(here, 1)
	last := acquire(t, p.bounded(), here, "write")
	p.queued(here, 2)
	p.release(holder)
	p.release(p.resume(there, p.detach(p.granted(next)))) // next has it by a handoff
	p.release(p.granted(last))
}
