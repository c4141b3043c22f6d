package multilock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var whole = bson.M{"_id": int32(1), "name": "flowers", "total": int32(1)}

func (p *place) wantDocument(name string, got, want any) {
	p.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("%s (- want, + got):\n%s", name, diff)
	}
}

func TestIntoOnGrant(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	var m bson.M
	p.release(p.try(l, "read", doclock.Into(&m)))
	p.wantDocument("TryAcquire", m, whole)
	type category struct {
		ID    int `bson:"_id"`
		Name  string
		Total int
		Lock  *lock
	}
	var c category
	p.release(p.got(l.Acquire(p.bounded(), byName, "read", doclock.Into(&c))))
	p.wantDocument("Acquire", c, category{ID: 1, Name: "flowers", Total: 1})
	var raw bson.Raw
	p.enqueue(l, "write", doclock.Into(&raw))
	must(t, bson.Unmarshal(raw, &m))
	p.wantDocument("Enqueue", m, whole)

	upserting := p.locker(p.coll, relations.Exclusive(), doclock.Upsert())
	var made bson.M
	p.got(upserting.TryAcquire(t.Context(), bson.M{"_id": "new"}, "write", doclock.Into(&made)))
	p.wantDocument("Upsert", made, bson.M{"_id": "new"})

	mine := bson.M{"mine": true} // is unchanged by a refusal
	p.conflict(errOf(l.TryAcquire(t.Context(), flowers, "write", doclock.Into(&mine))))
	p.wantDocument("refused", mine, bson.M{"mine": true})
}

// The document is read at the grant, not at the arrival.
func TestIntoOnConfirm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	writer := p.try(l, "write")
	var ticketed, waited bson.M
	ticket := p.enqueue(l, "read", doclock.Into(&ticketed))
	call := acquire(t, p.bounded(), l, "read", doclock.Into(&waited))
	p.eventually("both wait", func() bool { return len(p.entries("read")) == 2 })
	must(t, writer.UpdateAndRelease(t.Context(), plusOne))
	if ticketed != nil {
		t.Errorf("a ticket that waits has brought %v", ticketed)
	}
	p.got(ticket.Confirm(t.Context()))
	p.granted(call)
	want := bson.M{"_id": int32(1), "name": "flowers", "total": int32(2)}
	p.wantDocument("ticket", ticketed, want)
	p.wantDocument("acquire", waited, want)
}

// recovered calls f and returns what it panicked with.
func recovered(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

// panicking is a document whose decoding panics.
type panicking struct{}

func (*panicking) UnmarshalBSON([]byte) error { panic("the caller's codec") }

// decodings are the calls that decode a document for the caller, each of which the lock
// is free for.
func decodings() map[string]func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
	all := map[string]func(p *place, l *multilock.Locker, into doclock.AcquireOption) error{
		"Confirm after its caller gave up": func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
			return p.decodeTicket(l, into, func(ticket *multilock.Ticket, ctx context.Context) (doclock.Lease, error) {
				p.mem.Delay(1, 2*time.Second)
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				p.want(errOf(ticket.Confirm(short)), context.DeadlineExceeded)
				p.eventually("the ticket is granted", ticket.Granted)
				return ticket.Confirm(ctx)
			})
		},
	}
	for name, ask := range asks {
		all[name] = func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
			return errOf(ask(l, p.Context(), flowers, "write", into))
		}
	}
	for name, have := range tickets {
		all[name] = func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
			return p.decodeTicket(l, into, have)
		}
	}
	return all
}

// decodeTicket has the document of a ticket decoded, which is over then.
func (p *place) decodeTicket(l *multilock.Locker, into doclock.AcquireOption, call func(*multilock.Ticket, context.Context) (doclock.Lease, error)) (err error) {
	holder := p.try(l, "write")
	ticket := p.enqueue(l, "read", into)
	p.release(holder)
	defer func() {
		lease, again := ticket.Confirm(p.Context())
		if lease != nil || again == nil || err == nil && !errors.Is(again, doclock.ErrReleased) {
			p.Errorf("Confirm again: %v, %v", lease, again)
		}
		ok(p, ticket.Cancel(p.Context()))
	}()
	_, err = call(ticket, p.Context())
	return err
}

// If the document can't be decoded, the error says so, and the lock is released.
func TestIntoThatFailsReleasesTheLock(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		for name, decode := range decodings() {
			var wrong struct{ Name int }
			fault{doclock.ErrNotAcquired, []string{"decode the document", "name"}}.check(p, name, decode(p, l, doclock.Into(&wrong)))
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		}
	})
}

// decoding is a document with a decoder of the caller's own.
type decoding func() error

func (d decoding) UnmarshalBSON([]byte) error { return d() }

// What the caller's decoder returns is no answer of the server: nothing is asked again.
func TestIntoThatFailsWithAConflictIsOver(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		for name, decode := range decodings() {
			n := 0
			into := decoding(func() error { n++; return doclock.ErrConflict })
			fault{doclock.ErrNotAcquired, []string{"decode the document"}}.check(p, name, decode(p, l, doclock.Into(&into)))
			if n != 1 {
				p.Errorf("%s: the document was decoded %d times", name, n)
			}
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		}
	})
}

// A decoder that takes longer than the TTL loses the lease, and keeps nobody out: the next
// waiter of the same Locker gets the lock when the entry has expired.
func TestASlowDecoderHoldsNobodyUp(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(p *place) {
				l := p.locker(p.coll, relations.Exclusive())
				into := decoding(func() error { time.Sleep(10 * time.Minute); return nil })
				slow := make(chan error, 1)
				go func() { slow <- errOf(ask(l, p.Context(), flowers, "write", doclock.Into(&into))) }()
				time.Sleep(time.Second)
				lease, err := l.Acquire(p.Context(), flowers, "write", doclock.MaxWait(time.Minute))
				if err != nil {
					p.Error(err)
				} else {
					p.release(lease)
				}
				<-slow
			})
		})
	}
}

// Until the release after a failed decoding is answered, a TryAcquire may be refused.
// Then the lock is free.
func TestIntoThatFailsReleasesInTheBackground(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive())
		p.mem.Delay(1, time.Second, locktest.Releases, locktest.CleanUps)
		begun := time.Now()
		var wrong struct{ Name int }
		_, err := l.TryAcquire(p.Context(), flowers, "write", doclock.Into(&wrong))
		if err == nil || time.Since(begun) > 0 {
			p.Errorf("%v, after %v", err, time.Since(begun))
		}
		p.want(errOf(l.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
		time.Sleep(time.Second)
		synctest.Wait()
		p.try(l, "write")
	})
}

// The caller can recover from a panic of its own decoder, and the lock is released.
func TestAPanicInIntoIsTheCallers(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		into := doclock.Into(&panicking{})
		for name, decode := range decodings() {
			if got := recovered(func() { _ = decode(p, l, into) }); got != "the caller's codec" {
				p.Errorf("%s: recovered %v", name, got)
			}
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		}

		// A waiter that is handed the lock, and the next one behind it.
		holder := p.try(l, "write")
		first := begin(p, func() (any, error) {
			return recovered(func() { _, _ = l.Acquire(p.bounded(), flowers, "write", into) }), nil
		})
		p.queued(l, 1)
		next := acquire(p, p.bounded(), l, "write")
		p.queued(l, 2)
		p.release(holder)
		if got, _ := first.wait(); got != "the caller's codec" {
			p.Errorf("the waiter: recovered %v", got)
		}
		p.wantEntries(p.granted(next))
	})
}

// exploding is a value whose codec panics.
type exploding struct{}

func (exploding) MarshalBSONValue() (byte, []byte, error) { panic("the caller's codec") }

// The caller can recover from a panic in its own codec. Nothing is sent, and
// nothing stays behind.
func TestAPanicInACodecIsTheCallers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	explodes := func(name string, call func()) {
		t.Helper()
		p.sends(w, 0, name, func() error {
			if got := recovered(call); got != "the caller's codec" {
				t.Errorf("%s: recovered %v", name, got)
			}
			return nil
		})
	}
	for name, ask := range asks {
		explodes(name, func() { _, _ = ask(l, p.bounded(), bson.M{"_id": exploding{}}, "write") })
	}
	for name, write := range writes {
		lease := p.try(l, "write")
		for place, g := range placesOf(exploding{}) {
			explodes(name+", "+place, func() { _ = write(lease, p.bounded(), g.update, g.opts...) })
		}
		ok(t, errors.Join(lease.Renew(p.bounded()), lease.Update(p.bounded(), plusOne)))
		p.wantEntries(lease)
		p.release(lease)
	}
	if n := l.WaitQueues(); n != 0 {
		t.Errorf("%d documents are remembered", n)
	}
}

// Nothing of the target's former value stays, and a document that can't be decoded
// changes nothing.
func TestIntoReplacesItsTarget(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive())
		type category struct {
			Name string
			Old  []int
		}
		was := category{"before", []int{1, 2}}
		c, m := was, bson.M{"old": 1}
		p.release(p.try(l, "write", doclock.Into(&c)))
		p.wantDocument("a struct", c, category{Name: "flowers"})
		p.release(p.try(l, "write", doclock.Into(&m)))
		p.wantDocument("a map", m, whole)
		var wrong struct{ Name int }
		wrong.Name = 7
		if err := errOf(l.TryAcquire(p.Context(), flowers, "write", doclock.Into(&wrong))); err == nil || wrong.Name != 7 {
			p.Errorf("a wrong type becomes %v (%v)", wrong, err)
		}
	})
}
