package multilock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var whole = bson.M{"_id": int32(1), "name": "flowers", "total": int32(1)}

func TestIntoOnGrant(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	var m bson.M
	p.release(p.try(l, "read", doclock.Into(&m)))
	if diff := cmp.Diff(whole, m); diff != "" {
		t.Errorf("TryAcquire (- want, + got):\n%s", diff)
	}
	var category struct {
		ID    int `bson:"_id"`
		Name  string
		Total int
		Lock  *lock
	}
	lease, err := l.Acquire(p.bounded(), byName, "read", doclock.Into(&category))
	if err != nil {
		t.Fatal(err)
	}
	if category.ID != 1 || category.Name != "flowers" || category.Total != 1 || category.Lock != nil {
		t.Errorf("Acquire: %+v", category)
	}
	p.release(lease)
	var raw bson.Raw
	if ticket := p.enqueue(l, "write", doclock.Into(&raw)); !ticket.Granted() {
		t.Error("not granted")
	}
	if err := raw.Validate(); err != nil || raw.Lookup("name").StringValue() != "flowers" {
		t.Errorf("Enqueue: %v, %v", raw, err)
	}
	if _, err := raw.LookupErr("lock"); err == nil {
		t.Errorf("the lock is in %v", raw)
	}
}

// The document is read at the grant, not at the arrival.
func TestIntoOnConfirm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	writer := p.try(l, "write")
	var ticketed, waited bson.M
	ticket := p.enqueue(l, "read", doclock.Into(&ticketed))
	call := begin(t, func() (*doclock.Lease, error) {
		return l.Acquire(p.bounded(), flowers, "read", doclock.Into(&waited))
	})
	p.eventually("both wait", func() bool { return len(p.entries("read")) == 2 })
	if err := writer.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"total": 2}}); err != nil {
		t.Fatal(err)
	}
	if ticketed != nil {
		t.Errorf("a ticket that waits has brought %v", ticketed)
	}
	if _, err := ticket.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := call.wait(); err != nil {
		t.Fatal(err)
	}
	want := bson.M{"_id": int32(1), "name": "flowers", "total": int32(2)}
	for name, got := range map[string]bson.M{"ticket": ticketed, "acquire": waited} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", name, diff)
		}
	}
}

func TestIntoOnUpsert(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive(), doclock.Upsert())
	var m bson.M
	lease, err := l.TryAcquire(t.Context(), bson.M{"_id": "new"}, "write", doclock.Into(&m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bson.M{"_id": "new"}, m); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
	p.release(lease)
}

// A refused acquire leaves the target unchanged.
func TestIntoIsUntouchedByARefusal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	p.try(l, "write")
	m := bson.M{"mine": true}
	_, err := l.TryAcquire(t.Context(), flowers, "write", doclock.Into(&m))
	p.conflict(err)
	if diff := cmp.Diff(bson.M{"mine": true}, m); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
}

// If the document can't be decoded, the error says so, and the lock is released.
func TestIntoThatFailsReleasesTheLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	var wrong struct{ Name int }
	check := func(name string, lease *doclock.Lease, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "decode the document") || !strings.Contains(err.Error(), "name") {
			t.Errorf("%s returned the error %v", name, err)
		}
		if lease != nil {
			t.Errorf("%s returned a lease", name)
		}
		p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
	}
	lease, err := l.TryAcquire(t.Context(), flowers, "write", doclock.Into(&wrong))
	check("TryAcquire", lease, err)
	lease, err = l.Acquire(p.bounded(), flowers, "write", doclock.Into(&wrong))
	check("Acquire", lease, err)
	ticket, err := l.Enqueue(t.Context(), flowers, "write", doclock.Into(&wrong))
	check("Enqueue", nil, err)
	if ticket != nil {
		t.Error("Enqueue returned a ticket")
	}

	for name, call := range map[string]func(*multilock.Ticket) (*doclock.Lease, error){
		"Confirm": func(ticket *multilock.Ticket) (*doclock.Lease, error) { return ticket.Confirm(p.bounded()) },
		"Wait":    func(ticket *multilock.Ticket) (*doclock.Lease, error) { return ticket.Wait(p.bounded()) },
	} {
		holder := p.try(l, "write")
		ticket := p.enqueue(l, "read", doclock.Into(&wrong))
		p.release(holder)
		lease, err := call(ticket)
		check(name, lease, err)
		_, err = ticket.Confirm(t.Context())
		check("Confirm again", nil, err)
		if err := ticket.Cancel(t.Context()); err != nil {
			t.Errorf("Cancel: %v", err)
		}
	}
}

// panicky is what a caller's own code may do.
type panicky struct{}

func (*panicky) UnmarshalBSON([]byte) error { panic("the caller's") }

// The caller can recover from a panic of its own decoder, and the lock is
// released.
func TestIntoThatPanicsReleasesTheLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour))
	var into panicky
	for name, ask := range map[string]func(){
		"TryAcquire": func() { _, _ = l.TryAcquire(p.bounded(), flowers, "write", doclock.Into(&into)) },
		"Acquire":    func() { _, _ = l.Acquire(p.bounded(), flowers, "write", doclock.Into(&into)) },
		"Enqueue":    func() { _, _ = l.Enqueue(p.bounded(), flowers, "write", doclock.Into(&into)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			ask()
		}()
		p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
	}
}
