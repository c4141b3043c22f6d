package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A stored entry with the fields of its terms.
type termsEntry struct {
	ID             bson.Binary
	Owner          string
	Fence          int64
	Since, Expires time.Time
	Until          time.Time
	N              int64
}

// byTerms are the entries of "write".
func (p *place) byTerms() []termsEntry {
	p.Helper()
	var doc struct {
		Lock struct{ Tags struct{ Write []termsEntry } }
	}
	p.Decode(&doc)
	return doc.Lock.Tags.Write
}

// The ways to acquire.
var ways = map[string]func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease{
	"TryAcquire": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
		return p.try(l, "write", opts...)
	},
	"Acquire": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
		return p.acquire(l, "write", opts...)
	},
	"Enqueue": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
		lease, err := p.enqueue(l, "write", opts...).Confirm(p.bounded())
		if err != nil {
			p.Fatal(err)
		}
		return lease
	},
	"Enqueue, and wait": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
		before := p.try(l, "write")
		ticket := p.enqueue(l, "write", opts...)
		p.release(before)
		lease, err := ticket.Wait(p.bounded())
		if err != nil {
			p.Fatal(err)
		}
		return lease
	},
	"Acquire, and wait": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
		before := p.try(l, "write")
		waiter := acquire(p, p.bounded(), l, "write", opts...)
		p.queued(l, 1)
		p.release(before) // which hands it over
		return p.granted(waiter)
	},
}

// LeaseTTL and OwnedBy are this acquire's, however it acquires. The lease is
// valid, and kept by the server, for that TTL, also after a renewal.
func TestLeaseTTLAndOwnedBy(t *testing.T) {
	t.Parallel()
	const own, tolerance = time.Hour, 2 * time.Second
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, at, turn := newPlace(t), newClock(), &turned{}
			l := p.locker(p.coll, relations.Fair(), doclock.ClockTolerance(tolerance), doclock.Owner("the program"), at.drive(), turn.option)
			lease := way(p, l, doclock.LeaseTTL(own+time.Microsecond), doclock.OwnedBy("a job"))
			for range 2 {
				if left := lease.Remaining(); left != own-time.Millisecond {
					t.Errorf("%v left", left)
				}
				entries := p.byTerms()
				if len(entries) != 1 || entries[0].Owner != "a job" || entries[0].Expires.Sub(at.now()) != own+tolerance {
					t.Errorf("at %v there is %+v", at.now(), entries)
				}
				at.pass(time.Minute)
				turn.pass(time.Minute)
				if err := lease.Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			p.release(lease)
			after := p.try(l, "write")
			if entries := p.byTerms(); len(entries) != 1 || entries[0].Owner != "the program" || entries[0].Expires.Sub(at.now()) != 10*time.Second+tolerance {
				t.Errorf("after it there is %+v", entries)
			}
			p.release(after)
		})
	}
}

// Do keeps a lease of a short LeaseTTL alive, and one of a long LeaseTTL that its
// Locker's TTL would end.
func TestDoWithLeaseTTL(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Minute))
	err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		time.Sleep(doclock.MinTTL + doclock.MinTTL/2)
		return errors.Join(ctx.Err(), lease.Err())
	}, doclock.LeaseTTL(doclock.MinTTL))
	if err != nil {
		t.Error(err)
	}
}

// Under a shared tag, an acquire with terms of its own makes an entry of its own.
func TestTermsUnderASharedTag(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.sharing(p.coll)
	shared := p.try(l, "read")
	also := p.acquire(l, "read", doclock.HoldAtLeast(0)) // the same as no option
	longer := p.try(l, "read", doclock.LeaseTTL(time.Hour))
	owned := p.acquire(l, "read", doclock.OwnedBy("a job"))
	if also.ID() != shared.ID() {
		t.Error("an acquire without terms has an entry of its own")
	}
	p.wantEntries(shared, longer, owned)
	last := p.try(l, "read")
	if last.ID() != shared.ID() {
		t.Error("an acquire without terms joined an entry that has some")
	}
	if left := last.Remaining(); left > 10*time.Second {
		t.Errorf("%v left", left)
	}
	for _, lease := range []*doclock.Lease{longer, owned, shared, also, last} {
		p.release(lease)
	}
	p.wantEntries()
}

// A lock is handed over to a waiter with terms of its own. With a classic update
// that is one command only if the TTL is the same and others needn't be kept out:
// plain operators can't compute an expiry.
func TestRule17AHandoffBetweenTerms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts    []doclock.AcquireOption
		ttl     time.Duration
		update  any
		oneStep bool
	}{
		"another owner":          {[]doclock.AcquireOption{doclock.OwnedBy("a job")}, time.Minute, plusOne, true},
		"the same TTL":           {[]doclock.AcquireOption{doclock.OwnedBy("a job"), doclock.LeaseTTL(time.Minute)}, time.Minute, plusOne, true},
		"another TTL":            {[]doclock.AcquireOption{doclock.OwnedBy("a job"), doclock.LeaseTTL(time.Hour)}, time.Hour, plusOne, false},
		"another TTL, pipeline":  {[]doclock.AcquireOption{doclock.OwnedBy("a job"), doclock.LeaseTTL(time.Hour)}, time.Hour, plusOneInAPipeline, true},
		"hold at least":          {[]doclock.AcquireOption{doclock.OwnedBy("a job"), doclock.HoldAtLeast(time.Second)}, time.Minute, plusOne, false},
		"hold at least, in turn": {[]doclock.AcquireOption{doclock.OwnedBy("a job"), doclock.HoldAtLeast(time.Second)}, time.Minute, plusOneInAPipeline, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, w := p.watched()
			l := p.locker(coll, relations.Exclusive(), doclock.TTL(time.Minute))
			first := p.acquire(l, "write")
			waiter := acquire(t, p.bounded(), l, "write", c.opts...)
			p.queued(l, 1)
			w.commands()
			if err := first.UpdateAndRelease(t.Context(), c.update); err != nil {
				t.Fatal(err)
			}
			lease := p.granted(waiter)
			if sent := w.commands(); (len(sent) == 1) != c.oneStep {
				t.Errorf("sent %v", sent)
			}
			if left := lease.Remaining(); left > c.ttl || left < c.ttl-patience {
				t.Errorf("%v left of %v", left, c.ttl)
			}
			entries := p.byTerms()
			if len(entries) != 1 || entries[0].Owner != "a job" || entries[0].Expires.Sub(entries[0].Since) < c.ttl-patience {
				t.Errorf("there is %+v", entries)
			}
			if held := lease.Remaining(); time.Until(entries[0].Expires) < held {
				t.Errorf("the entry expires at %v, the lease is valid for %v", entries[0].Expires, held)
			}
			p.release(lease)
		})
	}
}
