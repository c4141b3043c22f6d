package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// Detach, resume and touch are repeated if their outcome is unknown.
func TestUnknownOutcomesOfTokens(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
			lease := p.try(l, "write")
			fault := net.Arm(cut, "findAndModify")
			token := p.detach(lease)
			wait(t, fault.Fired())
			fault = net.Arm(cut, "findAndModify")
			lease = p.resume(l, token)
			wait(t, fault.Fired())
			p.wantEntries(lease)
			if e := p.entries("write")[0]; e.Fence != lease.Fence() || !e.Until.IsZero() {
				t.Errorf("the entry is %+v, the lease's fencing token %d", e, lease.Fence())
			}
			fault = net.Arm(cut, "findAndModify")
			if err := l.Touch(p.bounded(), token); err != nil {
				t.Errorf("Touch: %v", err)
			}
			wait(t, fault.Fired())
			fault = net.Arm(cut, "findAndModify")
			p.release(lease)
			wait(t, fault.Fired())
			p.gone(l, token)
		})
	}
}

// A caller who gives up holds nothing, and the token stays good.
func TestResumeGivenUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	before, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Resume(before, token)
	p.want(err, context.Canceled, doclock.ErrNotAcquired)
	p.want(l.Touch(before, token), context.Canceled)
	if e := p.entries("write")[0]; !e.Detached {
		t.Error("a resume was sent")
	}
	for _, cut := range []faultnet.Kind{faultnet.DelayReply, faultnet.Hold} {
		fault := net.Arm(cut, "findAndModify")
		ctx, cancel := context.WithCancel(t.Context())
		call := begin(t, func() (*doclock.Lease, error) { return l.Resume(ctx, token) })
		wait(t, fault.Fired())
		cancel()
		_, err := call.wait()
		p.want(err, context.Canceled, doclock.ErrNotAcquired)
		p.wantNot(err, doclock.ErrOutcomeUnknown)
		if err := fault.Let(); err != nil {
			t.Fatal(err)
		}
	}
	p.release(p.resume(l, token))
}

// If another user has resumed a lease, its release and its delete did nothing, also
// if the first attempt is of unknown outcome. Without it a document counts as
// deleted that the other user works on.
func TestRule23AnEndOfUnknownOutcomeAfterAnotherResume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end      func(*doclock.Lease, context.Context) error
		released bool // by the other user
		want     error
	}{
		"release":                 {(*doclock.Lease).Release, false, doclock.ErrLost},
		"delete":                  {(*doclock.Lease).Delete, false, doclock.ErrLost},
		"release after a release": {(*doclock.Lease).Release, true, doclock.ErrOutcomeUnknown},
		"delete after a release":  {(*doclock.Lease).Delete, true, doclock.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
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
			wait(t, fault.Fired())
			p.want(err, c.want)
			if !c.released {
				p.wantEntries(other)
				p.release(other)
			}
		})
	}
}
