package multilock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// One of three documents can't be had. Nothing stays locked when the call
// returns, and the error says which one and why.
func TestAFailureInTheMiddleLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want  func(*multilock.Locker) multilock.Want
		is    []error
		index int
	}{
		"not found": {func(l *multilock.Locker) multilock.Want { return l.Want(bson.M{"_id": 2, "total": 11}, "write") }, []error{doclock.ErrNotFound}, 2},
		"unreadable": {func(l *multilock.Locker) multilock.Want {
			return l.Want(doclock.ID(2), "write", doclock.Into(&unreadable{}))
		}, nil, 2},
		"panic": {func(l *multilock.Locker) multilock.Want {
			return l.Want(doclock.ID(2), "write", doclock.Into(&unreadable{"caller's own"}))
		}, nil, -1},
		"held, one try": {func(l *multilock.Locker) multilock.Want { return l.Want(doclock.ID(4), "write", doclock.MaxWait(0)) }, []error{doclock.ErrConflict}, 2},
		"held, a while": {func(l *multilock.Locker) multilock.Want {
			return l.Want(doclock.ID(4), "write", doclock.MaxWait(100*time.Millisecond))
		}, []error{doclock.ErrConflict}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaces(t, 4)
			l, others := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
			holder, err := others.TryAcquire(p.bounded(), doclock.ID(4), "write")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if r := recover(); (r != nil) != (c.index < 0) {
					t.Errorf("recovered %v", r)
				}
				p.eventually("nothing else is held", func() bool { return slices.Equal(p.held(), []int{4}) })
				p.release(holder)
			}()
			err = multilock.DoAll(t.Context(), func(context.Context, multilock.Leases) error {
				t.Error("fn was called")
				return nil
			}, append(of(l, 3, 1), c.want(l))...)
			if name != "unreadable" { // whose own lease is released in the background
				p.wantHeld(4)
			}
			p.want(err, append(c.is, doclock.ErrNotAcquired)...)
			var which *multilock.WantError
			if !errors.As(err, &which) || which.Index != c.index || which.Tag != "write" || which.Collection != p.coll.Database().Name()+"."+p.coll.Name() ||
				which.DocumentID.AsInt64() != 2 && which.DocumentID.AsInt64() != 4 {
				t.Errorf("the error is of want %+v: %v", which, err)
			}
			if slices.Contains(c.is, doclock.ErrConflict) && p.conflict(err).Holders[0].ID != holder.ID() {
				t.Errorf("the conflict is %v", err)
			}
		})
	}
}

// The caller's context ends during the wait: the call returns at once, and the
// releases go on.
func TestAcquireAllWhoseCallerGivesUp(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l, others := p.locker(p.coll, relations.Fair()), p.locker(p.coll, relations.Fair())
	holder, err := others.TryAcquire(p.bounded(), doclock.ID(2), "write")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	call := begin(t, func() (multilock.Leases, error) { return multilock.AcquireAll(ctx, of(l, 1, 2, 3)...) })
	p.eventually("it waits", func() bool { return slices.Equal(p.held(), []int{1, 2, 2}) })
	cancel(cause)
	_, err = call.wait()
	p.want(err, doclock.ErrNotAcquired, context.Canceled, cause, doclock.ErrConflict)
	p.eventually("nothing of it is left", func() bool { return slices.Equal(p.held(), []int{2}) })
	p.release(holder)
}

// A lease that was acquired early must not expire while a later one is waited
// for.
func TestEarlierLeasesAreRenewedDuringTheWait(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0)), p.locker(p.coll, relations.Exclusive())
	holder, err := others.TryAcquire(p.bounded(), doclock.ID(2), "write")
	if err != nil {
		t.Fatal(err)
	}
	call := begin(t, func() (multilock.Leases, error) { return multilock.AcquireAll(p.bounded(), of(l, 2, 1)...) })
	p.eventually("the first is held", func() bool { return len(p.at(1).Lock.Tags["write"]) == 1 })
	first := p.at(1).Lock.Tags["write"][0]
	p.eventually("its entry outlives two TTLs", func() bool {
		entries := p.at(1).Lock.Tags["write"]
		return len(entries) != 1 || entries[0].Expires.Sub(first.Expires) > 2*time.Second
	})
	p.release(holder)
	leases, err := call.wait()
	if err != nil {
		t.Fatal(err)
	}
	if id := leases[1].ID(); string(id[:]) != string(first.ID.Data) || leases[1].Err() != nil {
		t.Errorf("the first lease is %v", leases[1])
	}
	if err := leases.Release(p.bounded()); err != nil {
		t.Error(err)
	}
}

// A lease is lost while another is waited for. The wait ends, and the error is of
// the lost one.
func TestALossDuringTheWait(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second)), p.locker(p.coll, relations.Exclusive())
	holder, err := others.TryAcquire(p.bounded(), doclock.ID(3), "write")
	if err != nil {
		t.Fatal(err)
	}
	call := begin(t, func() (multilock.Leases, error) { return multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1)...) })
	p.eventually("it waits", func() bool { return slices.Equal(p.held(), []int{1, 2, 3}) })
	p.eraseOf(1)
	_, err = call.wait()
	p.want(err, doclock.ErrNotAcquired, doclock.ErrLost)
	p.wantNot(err, context.Canceled)
	var which *multilock.WantError
	if !errors.As(err, &which) || which.Index != 2 || which.DocumentID.AsInt64() != 1 {
		t.Errorf("the error is of %+v: %v", which, err)
	}
	p.wantHeld(3)
	p.release(holder)
}

// Callers with random sets, in any order, through several Lockers: everybody
// gets through, and nobody meets another.
func TestNoDeadlockOfOverlappingSets(t *testing.T) {
	t.Parallel()
	const documents, callers, rounds = 5, 9, 6
	p := newPlaces(t, documents)
	lockers := []*multilock.Locker{p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for range rounds {
				l := lockers[caller%len(lockers)]
				docs := make([]stored, 2+rand.N(documents-2))
				var wants []multilock.Want
				for i, id := range rand.Perm(documents)[:len(docs)] {
					wants = append(wants, l.Want(doclock.ID(id+1), "write", doclock.Into(&docs[i])))
				}
				err := multilock.DoAll(p.bounded(), func(ctx context.Context, leases multilock.Leases) error {
					for i, lease := range leases {
						if err := lease.Update(ctx, bson.M{"$set": bson.M{"total": docs[i].Total + 1}, "$inc": bson.M{"counted": 1}}); err != nil {
							return err
						}
					}
					return nil
				}, wants...)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	p.wantHeld()
	for id := range documents {
		raw, err := p.coll.FindOne(p.bounded(), doclock.ID(id+1)).Raw()
		if err != nil {
			t.Fatal(err)
		}
		if total, counted := raw.Lookup("total").AsInt64(), raw.Lookup("counted").AsInt64(); total != 10+counted {
			t.Errorf("document %d: total %d after %d increments of 10", id+1, total, counted)
		}
	}
}
