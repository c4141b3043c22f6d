package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// wantOf fails unless err is of this want, of this document.
func (p *place) wantOf(err error, index int, id int64) {
	p.Helper()
	var which *multilock.WantError
	if !errors.As(err, &which) || which.Index != index || which.Tag != "write" ||
		which.Collection != p.coll.Database().Name()+"."+p.coll.Name() || which.DocumentID.AsInt64() != id {
		p.Errorf("the error is of want %+v: %v", which, err)
	}
	p.want(err, doclock.ErrNotAcquired)
}

// One of three documents can't be had. Nothing stays locked when the call returns, no
// remainder of a HoldAtLeast either, and the error says which one and why. If the caller
// gives up, it returns at once, and the releases go on.
func TestAFailureInTheMiddleLeavesNothing(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user has left")
	for name, c := range map[string]struct {
		filter   any
		opts     []doclock.AcquireOption
		document int64
		is       []error
		says     string
		gaveUp   bool // the caller, after a second
	}{
		"not found":     {bson.M{"_id": 2, "total": 11}, nil, 2, []error{doclock.ErrNotFound}, "", false},
		"unreadable":    {doclock.ID(2), []doclock.AcquireOption{doclock.Into(&unreadable{})}, 2, nil, "unreadable", false},
		"panic":         {doclock.ID(2), []doclock.AcquireOption{doclock.Into(&unreadable{"caller's own"})}, 2, nil, "", false},
		"held, one try": {doclock.ID(4), []doclock.AcquireOption{doclock.MaxWait(0)}, 4, []error{doclock.ErrConflict}, "", false},
		"given up":      {doclock.ID(4), nil, 4, []error{context.Canceled, cause, doclock.ErrConflict}, "", true},
		"held, a while": {doclock.ID(4), []doclock.AcquireOption{doclock.MaxWait(time.Minute)}, 4, []error{doclock.ErrConflict}, "", false},
	} {
		virtually(t, name, func(p *place) {
			p.several(4)
			l, others := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour))
			p.got(others.TryAcquire(p.Context(), doclock.ID(4), "write"))
			wants := []multilock.Want{l.Want(doclock.ID(3), "write", doclock.HoldAtLeast(time.Hour)), l.Want(doclock.ID(1), "write"), l.Want(c.filter, "write", c.opts...)}
			ctx, cancel := context.WithCancelCause(p.Context())
			defer cancel(nil)
			if c.gaveUp {
				time.AfterFunc(time.Second, func() { cancel(cause) })
			}
			begun := time.Now()
			var err error
			panicked := recovered(func() {
				err = multilock.DoAll(ctx, func(context.Context, multilock.Leases) error {
					p.Error("fn was called")
					return nil
				}, wants...)
			})
			if took := time.Since(begun); c.gaveUp && took != time.Second {
				p.Errorf("it returned after %v", took)
			}
			p.eventually("nothing else is held", func() bool { return slices.Equal(p.held(), []int{4}) })
			if (panicked != nil) != (name == "panic") {
				p.Fatalf("recovered %v", panicked)
			}
			if panicked == nil {
				p.wantOf(err, 2, c.document)
				fault{doclock.ErrNotAcquired, []string{c.says}}.check(p, name, err)
				p.want(err, c.is...)
			}
		})
	}
}

// A lease that was acquired early must not expire while a later one is waited
// for.
func TestEarlierLeasesAreRenewedDuringTheWait(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0)), p.locker(p.coll, relations.Exclusive())
		holder := p.got(others.TryAcquire(p.bounded(), doclock.ID(2), "write"))
		call := begin(p, func() (multilock.Leases, error) { return multilock.AcquireAll(p.bounded(), of(l, 2, 1)...) })
		time.Sleep(10 * time.Second)
		first := p.at(1).Lock.Tags["write"][0]
		p.release(holder)
		leases, err := call.wait()
		must(p, err)
		if id := leases[1].ID(); string(id[:]) != string(first.ID.Data) || leases[1].Err() != nil {
			p.Errorf("the first lease is %v", leases[1])
		}
		ok(p, leases.Release(p.bounded()))
	})
}

// A lease is lost while another is waited for. The wait ends, and the error is of
// the lost one.
func TestALossDuringTheWait(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(3)
		l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second)), p.locker(p.coll, relations.Exclusive())
		p.got(others.TryAcquire(p.bounded(), doclock.ID(3), "write"))
		time.AfterFunc(time.Second, func() { p.eraseOf(1) })
		_, err := multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1)...)
		p.wantOf(err, 2, 1)
		p.wantNot(err, context.Canceled)
		p.wantNot(err, doclock.ErrLost) // which would say that a function has run
		if !strings.Contains(err.Error(), "lock lost while the other leases were acquired") {
			p.Errorf("the error is %v", err)
		}
		p.wantHeld(3)
	})
}
