package multilock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The protocol's rule 23. Each test is a trace that breaks without a part of the
// rule. The mutants in proptest/mutants remove the parts.

var one = bson.M{"$inc": bson.M{"total": 1}}

// total is the document's total.
func (p *place) total() int32 {
	p.Helper()
	return p.raw().Lookup("total").Int32()
}

// Resume gives a new id, a new fencing token, and no number. Without them two
// tabs that save both number their write 1, and the second is taken for a repeat
// of the first and reported as applied.
func TestRule23TwoTabsSave(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
	token := p.detach(p.try(l, "write"))
	first, second := p.resume(l, token), p.resume(l, token)
	p.want(first.Update(p.bounded(), one), doclock.ErrLost)
	fault := net.Arm(faultnet.LoseRequest, "findAndModify")
	if err := second.Update(p.bounded(), one); err != nil {
		t.Fatal(err)
	}
	wait(t, fault.Fired())
	if got := p.total(); got != 2 {
		t.Errorf("the total is %d", got)
	}
	third := p.resume(l, token)
	if err := third.Update(p.bounded(), one); err != nil {
		t.Fatal(err)
	}
	p.want(second.UpdateAndRelease(p.bounded(), one), doclock.ErrLost)
	if err := third.UpdateAndRelease(p.bounded(), one); err != nil {
		t.Fatal(err)
	}
	if got := p.total(); got != 4 {
		t.Errorf("the total is %d", got)
	}
}

// Two resumes race. The later one has the entry, and both leases exclude others.
func TestRule23TwoResumesRace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	here, there := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(here, "write"))
	var calls []*pending[*doclock.Lease]
	for _, l := range []*multilock.Locker{here, there, here, there} {
		calls = append(calls, begin(t, func() (*doclock.Lease, error) { return l.Resume(p.bounded(), token) }))
	}
	applied := 0
	var last *doclock.Lease
	for _, c := range calls {
		lease, err := c.wait()
		if err != nil {
			t.Fatal(err)
		}
		if last == nil || lease.Fence() > last.Fence() {
			last = lease
		}
	}
	for _, c := range calls {
		switch err := c.value.Update(p.bounded(), one); {
		case err == nil && c.value == last:
			applied++
		case !errors.Is(err, doclock.ErrLost):
			t.Errorf("an earlier lease's write: %v", err)
		}
	}
	if got := p.total(); applied != 1 || got != 2 {
		t.Errorf("%d applied, the total is %d", applied, got)
	}
	p.release(last)
}

// Resume of an entry that has a handle keeps others out for the time of that
// handle, whatever its successors do. Without it one user resumes, a second user
// resumes and releases, and another client is granted while the first user's
// lease is valid.
func TestRule23OthersAreKeptOutForAnEarlierHandle(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*place, *doclock.Lease) error{
		"release":            func(p *place, l *doclock.Lease) error { return l.Release(p.bounded()) },
		"update and release": func(p *place, l *doclock.Lease) error { return l.UpdateAndRelease(p.bounded(), one) },
		"update by pipeline, released": func(p *place, l *doclock.Lease) error {
			return l.UpdateAndRelease(p.bounded(), bson.A{bson.M{"$set": bson.M{"a": 1}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			now := newClock()
			l := p.locker(p.coll, relations.Exclusive(), now.drive(), doclock.TTL(time.Minute), doclock.ClockTolerance(0))
			token := p.detach(p.try(l, "write"))
			first := p.resume(l, token)
			now.pass(30 * time.Second)
			second := p.resume(l, token)
			if err := end(p, second); err != nil {
				t.Fatal(err)
			}
			p.gone(l, token)
			now.pass(29 * time.Second)
			if first.Err() != nil {
				t.Fatal("the first lease is over")
			}
			_, err := l.TryAcquire(p.bounded(), flowers, "write")
			p.want(err, doclock.ErrConflict)
			now.pass(time.Second)
			p.release(p.try(l, "write"))
		})
	}
}

// A detached entry keeps others out for no earlier handle.
func TestRule23NoRemainderIfEachUserDetaches(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	token = p.detach(p.resume(l, token))
	p.release(p.resume(l, token))
	p.wantEntries()
	p.release(p.try(l, "write"))
}

// An entry with a key is removed by its last handle only. Without it a late
// resume brings the first user's id back, and that user's release ends the lock
// of the others.
func TestRule23ALateResumeEndsNobodysLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	held := net.Arm(faultnet.Hold, "findAndModify")
	first := p.resume(l, token) // the second attempt was answered
	wait(t, held.Fired())
	second := p.resume(l, token)
	if err := second.Update(p.bounded(), one); err != nil {
		t.Fatal(err)
	}
	if err := held.Let(); err != nil { // the first attempt is executed
		t.Fatal(err)
	}
	id := first.ID()
	if e := p.entries("write"); len(e) != 1 || string(e[0].ID.Data) != string(id[:]) || e[0].Fence <= second.Fence() {
		t.Fatalf("the entries are %+v", e)
	}
	p.want(first.Release(p.bounded()), doclock.ErrLost)
	p.want(second.Release(p.bounded()), doclock.ErrLost)
	p.release(p.resume(l, token))
}

// The clean-up of an acquire spares the lock that was detached.
func TestRule23TheCleanUpOfAnAcquireSparesTheToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	held := net.Arm(faultnet.Hold, "findAndModify")
	lease := p.try(l, "write") // the second attempt was answered
	wait(t, held.Fired())
	token := p.detach(lease)
	p.rest(l) // which removes the acquire's id once more
	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	other := p.locker(p.coll, relations.Exclusive())
	p.release(p.resume(other, token))
}

// A detach whose reply is lost, and whose entry another user has resumed since,
// has left the entry.
func TestRule23ADetachThatWasResumedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	other := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	lease := p.resume(l, token)
	reply := net.ArmRewrite(faultnet.Rewrite, "findAndModify", func(reply bson.Raw) any {
		p.resume(other, token)
		return unreplicated(reply)
	})
	again, err := lease.Detach(p.bounded())
	wait(t, reply.Fired())
	if err != nil || again != token {
		t.Errorf("%q, %v; the token is %q", again, err, token)
	}
}
