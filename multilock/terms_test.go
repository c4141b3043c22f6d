package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

// The ways to acquire.
var ways = map[string]func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease{
	"TryAcquire": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		return p.try(l, "write", opts...)
	},
	"Acquire": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		return p.acquire(l, "write", opts...)
	},
	"Enqueue": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		return p.got(p.enqueue(l, "write", opts...).Confirm(p.bounded()))
	},
	"Enqueue, and wait": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		before := p.try(l, "write")
		ticket := p.enqueue(l, "write", opts...)
		p.release(before)
		return p.got(ticket.Wait(p.bounded()))
	},
	"Acquire, and wait": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		before := p.try(l, "write")
		waiter := acquire(p, p.bounded(), l, "write", opts...)
		p.queued(l, 1)
		p.release(before) // which hands it over
		return p.granted(waiter)
	},
}

// The TTL and the Owner of an acquire count, however it acquires, before the TagTTL,
// and that before the Locker's TTL. The lease is valid, and kept by the server, for that
// time, also after a renewal.
func TestTheTTLAndTheOwnerOfAnAcquire(t *testing.T) {
	t.Parallel()
	const own, tolerance = time.Hour, 2 * time.Second
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, at, turn := newPlace(t), &clock{}, &turned{}
			l := p.locker(p.coll, relations.Fair(), doclock.TagTTL("write", 2*calm+600*time.Microsecond), doclock.ClockTolerance(tolerance+600*time.Microsecond), doclock.Owner("the program"), at.drive(), turn.option())
			lease := way(p, l, doclock.TTL(own+time.Microsecond), doclock.Owner("a job"))
			for range 2 {
				if left := lease.Remaining(); left != own-time.Millisecond {
					t.Errorf("%v left", left)
				}
				entries := p.entries("write")
				if len(entries) != 1 || entries[0].Owner != "a job" || entries[0].Expires.Sub(at.Now()) != own+tolerance {
					t.Errorf("at %v there is %+v", at.Now(), entries)
				}
				at.Pass(time.Minute)
				turn.Pass(time.Minute)
				must(t, lease.Renew(t.Context()))
			}
			p.release(lease)
			after := p.try(l, "write")
			if entries := p.entries("write"); len(entries) != 1 || entries[0].Owner != "the program" || entries[0].Expires.Sub(at.Now()) != 2*calm+tolerance {
				t.Errorf("after it there is %+v", entries)
			}
			if left := after.Remaining(); left != 2*calm-time.Millisecond {
				t.Errorf("after it, %v left", left)
			}
			p.release(after)
		})
	}
}

// Under a shared tag, an acquire with terms of its own makes an entry of its own.
func TestTermsUnderASharedTag(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		shared := p.try(l, "read")
		also := p.acquire(l, "read", doclock.HoldAtLeast(0)) // the same as no option
		longer := p.try(l, "read", doclock.TTL(time.Hour))
		owned := p.acquire(l, "read", doclock.Owner("a job"))
		if also.ID() != shared.ID() {
			p.Error("an acquire without terms has an entry of its own")
		}
		p.wantEntries(shared, longer, owned)
		last := p.try(l, "read")
		if last.ID() != shared.ID() {
			p.Error("an acquire without terms joined an entry that has some")
		}
		if left := last.Remaining(); left > calm {
			p.Errorf("%v left", left)
		}
		for _, lease := range []doclock.Lease{longer, owned, shared, also, last} {
			p.release(lease)
		}
		p.wantEntries()
	})
}

// A lost acquire's entry is looked for as long as it could live: for its own
// TTL, for the waiting TTL, or until the time of HoldAtLeast.
func TestRule22TheCleanUpLastsForTheLongestLife(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair(), doclock.TTL(10*time.Second), waitTTL(20*time.Second), doclock.ClockTolerance(time.Second))
	for name, c := range map[string]struct {
		opts []doclock.AcquireOption
		life time.Duration
	}{
		"the Locker's terms": {nil, 21 * time.Second},
		"a short TTL":        {[]doclock.AcquireOption{doclock.TTL(2 * time.Second)}, 21 * time.Second},
		"a long TTL":         {[]doclock.AcquireOption{doclock.TTL(time.Hour)}, time.Hour + time.Second},
		"hold at least":      {[]doclock.AcquireOption{doclock.HoldAtLeast(time.Minute)}, time.Minute + time.Second},
	} {
		if life, err := l.Life(flowers, "write", c.opts...); life != c.life || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, life, err, c.life)
		}
	}
}
