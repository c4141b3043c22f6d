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
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// sharing is a locker whose readers share their entries.
func (p *place) sharing(coll *mongo.Collection, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	return p.locker(coll, relations.WritePreferring(), append(opts, doclock.ShareInProcess("read"))...)
}

func (p *place) acquire(l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *doclock.Lease {
	p.Helper()
	lease, err := l.Acquire(p.bounded(), flowers, tag, opts...)
	if err != nil {
		p.Fatalf("Acquire %q: %v", tag, err)
	}
	return lease
}

// Readers that arrive at the same time share one entry and cost two commands,
// however they ask. They exclude others until the last one leaves.
func TestRule21LocalHoldersShareAnEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l, theirs := p.sharing(coll), p.locker(p.coll, relations.WritePreferring())
	const readers = 100
	var all []*pending[*doclock.Lease]
	for range readers {
		all = append(all, acquire(t, t.Context(), l, "read"))
	}
	var leases []*doclock.Lease
	for _, one := range all {
		leases = append(leases, p.granted(one))
	}
	leases = append(leases, p.try(l, "read"))
	if sent := w.commands(); len(sent) != 1 {
		t.Errorf("%d readers sent %v", len(leases), sent)
	}
	p.wantEntries(leases[0])
	for i, lease := range leases {
		if lease.ID() != leases[0].ID() || lease.Fence() != leases[0].Fence() {
			t.Errorf("reader %d has entry %v, %d", i, lease.ID(), lease.Fence())
		}
		if _, err := theirs.TryAcquire(p.bounded(), flowers, "write"); !errors.Is(err, doclock.ErrConflict) {
			t.Fatalf("beside %d readers a writer got %v", len(leases)-i, err)
		}
		want := 0
		if i == readers {
			want = 1
		}
		p.sends(w, want, "release", func() error { return lease.Release(t.Context()) })
		p.want(lease.Err(), doclock.ErrReleased)
	}
	p.wantEntries()
	p.release(p.try(theirs, "write"))
	p.eventually("the wait queue is dropped", func() bool { return l.WaitQueues() == 0 })
}

// Readers that wait for a writer of their own process get the lock together: one
// entry is handed over, and all join it.
func TestASharedEntryIsHandedOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.sharing(coll)
	writer := p.acquire(l, "write")
	var all []*pending[*doclock.Lease]
	for range 20 {
		all = append(all, acquire(t, t.Context(), l, "read"))
	}
	p.queued(l, len(all))
	p.sends(w, 1, "release", func() error { return writer.Release(t.Context()) })
	var leases []*doclock.Lease
	for _, one := range all {
		leases = append(leases, p.granted(one))
	}
	p.wantEntries(leases[0])
	next := acquire(t, t.Context(), l, "write")
	p.eventually("in the document", func() bool { return len(p.entries("write")) == 1 })
	p.queued(l, 1)
	w.commands()
	for _, lease := range leases {
		p.release(lease)
	}
	if sent := w.commands(); len(sent) != 1 {
		t.Errorf("the readers' releases sent %v", sent)
	}
	got := p.granted(next)
	p.wantEntries(got)
	p.release(got)
}

// No holder joins after an image has shown an entry that blocks the tag. A
// holder checks for one 200 ms after the last image, or when a third of the lease
// has passed.
func TestRule21NoHolderJoinsPastAWaiter(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]time.Duration{"unchecked": 220 * time.Millisecond, "third": 180 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, w := p.watched()
			var clocks turned
			ttl := 10 * time.Second
			if name == "third" {
				ttl = 500 * time.Millisecond
			}
			l, theirs := p.sharing(coll, clocks.option, short(ttl), doclock.ClockTolerance(time.Minute)), p.locker(p.coll, relations.WritePreferring())
			first := p.acquire(l, "read")
			clocks.pass(passes)
			var second *doclock.Lease
			p.sends(w, 1, "acquire", func() (err error) { second, err = l.Acquire(p.bounded(), flowers, "read"); return err })
			if r := first.Remaining(); second.ID() != first.ID() || r <= ttl-passes/2 {
				t.Errorf("%v joined %v, of which %v remain", second.ID(), first.ID(), r)
			}
			waiting := p.enqueue(theirs, "write")
			p.sends(w, 0, "acquire", func() (err error) { second, err = l.TryAcquire(p.bounded(), flowers, "read"); return err })
			clocks.pass(passes)
			p.sends(w, 1, "acquire", func() (err error) { _, err = l.TryAcquire(p.bounded(), flowers, "read"); return err }, doclock.ErrConflict)
			if err := waiting.Cancel(p.bounded()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The image of any waiter's answer counts.
func TestRule21AWaiterIsSeenByOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.sharing(p.coll)
	first := p.acquire(l, "read")
	next := acquire(t, t.Context(), l, "write")
	p.eventually("in the document", func() bool { return len(p.entries("write")) == 1 })
	p.queued(l, 1)
	if _, err := l.TryAcquire(p.bounded(), flowers, "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("a reader passed a waiting writer: %v", err)
	}
	p.release(first)
	p.release(p.granted(next))
}

// A holder never joins an entry that is being released: it gets one of its own.
func TestRule21NoHolderJoinsAReleasedEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.sharing(coll)
	first := p.acquire(l, "read")
	renewal := net.Arm(faultnet.DelayReply, "findAndModify")
	renewed := begin(t, func() (struct{}, error) { return struct{}{}, first.Renew(p.bounded()) })
	wait(t, renewal.Fired())
	released := begin(t, func() (struct{}, error) { return struct{}{}, first.Release(p.bounded()) })
	p.eventually("the holder has left", func() bool { return first.Err() != nil }) // the release waits for the renewal
	second := p.try(l, "read")
	if second.ID() == first.ID() {
		t.Error("a reader joined an entry that is being released")
	}
	if err := renewal.Let(); err != nil {
		t.Fatal(err)
	}
	if _, err := renewed.wait(); err != nil {
		t.Error(err)
	}
	if _, err := released.wait(); err != nil {
		t.Error(err)
	}
	p.wantEntries(second)
	p.release(second)
}

// All holders of a shared entry have one validity. A holder that joins gets no
// longer one. After its end the first release releases the entry for all.
func TestRule21OneValidityForAll(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	var clocks turned
	l := p.sharing(coll, clocks.option)
	first := p.acquire(l, "read")
	clocks.pass(150 * time.Millisecond)
	second, third := p.acquire(l, "read"), p.acquire(l, "read")
	if r := second.Remaining(); r > 9850*time.Millisecond || r != first.Remaining() {
		t.Errorf("%v remain of the second's, %v of the first's", r, first.Remaining())
	}
	p.sends(w, 1, "renew", func() error { return third.Renew(t.Context()) })
	if r := first.Remaining(); r < 9900*time.Millisecond {
		t.Errorf("%v remain after a renewal", r)
	}
	clocks.pass(11 * time.Second)
	for _, lease := range []*doclock.Lease{first, second, third} {
		p.want(lease.Err(), doclock.ErrLost)
		wait(t, lease.Done())
	}
	p.sends(w, 1, "release", func() error { return second.Release(t.Context()) }) // no other holder was let in
	p.sends(w, 0, "release", func() error { return first.Release(t.Context()) }, doclock.ErrLost)
	p.sends(w, 0, "update", func() error { return third.Update(t.Context(), bson.M{"$set": bson.M{"late": true}}) }, doclock.ErrLost)
	p.sends(w, 0, "renew", func() error { return third.Renew(t.Context()) }, doclock.ErrLost)
	p.sends(w, 0, "update", func() error { return third.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"late": true}}) }, doclock.ErrLost)
	p.wantEntries()
}

// The writes of all holders of an entry are numbered in one sequence. Each is
// one command, whether or not the other holders stay.
func TestRule21WritesOfOneEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.sharing(coll)
	add := bson.M{"$inc": bson.M{"total": 1}}
	first, second, third := p.acquire(l, "read"), p.acquire(l, "read"), p.acquire(l, "read")
	p.sends(w, 1, "update", func() error { return first.Update(t.Context(), add) })
	p.sends(w, 1, "update", func() error { return second.Update(t.Context(), add) })
	p.sends(w, 1, "update and release", func() error { return second.UpdateAndRelease(t.Context(), add) })
	p.sends(w, 0, "release", func() error { return second.Release(t.Context()) })
	p.sends(w, 0, "update", func() error { return second.Update(t.Context(), add) }, doclock.ErrReleased)
	if n := p.entries("read")[0].N; n != 3 {
		t.Errorf("the last write is number %d, want 3", n)
	}
	p.sends(w, 0, "release", func() error { return first.Release(t.Context()) })
	p.sends(w, 1, "update and release", func() error { return third.UpdateAndRelease(t.Context(), add) })
	p.sends(w, 0, "release", func() error { return third.Release(t.Context()) })
	p.wantEntries()
	var doc struct{ Total int }
	if err := p.coll.FindOne(t.Context(), flowers).Decode(&doc); err != nil || doc.Total != 5 {
		t.Errorf("total is %d, %v; want 5", doc.Total, err)
	}
}

// KeepAlive renews the entry for all holders. Each context belongs to one holder.
func TestASharedLeaseIsKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.sharing(p.coll, doclock.TTL(time.Second))
	first, second := p.acquire(l, "read"), p.acquire(l, "read")
	kept, end := p.entries("read")[0].Expires, second.KeepAlive(t.Context())
	ours := first.KeepAlive(t.Context())
	p.eventually("renewed", func() bool { return p.entries("read")[0].Expires.After(kept) })
	p.release(second)
	<-end.Done()
	if ours.Err() != nil || first.Err() != nil {
		t.Errorf("the first holder's context: %v, %v", ours.Err(), first.Err())
	}
	kept = p.entries("read")[0].Expires
	p.eventually("renewed", func() bool { return p.entries("read")[0].Expires.After(kept) })
	p.release(first)
	<-ours.Done()
}

// A caller that wants the document sends a command, and joins. A caller whose
// filter has more than an _id, or that takes a ticket, gets an entry of its own.
func TestHoldersWithAnEntryOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.sharing(coll)
	first := p.acquire(l, "read")
	p.change(bson.M{"$set": bson.M{"total": 7}})
	var doc struct{ Total int }
	for _, acquire := range []func(opts ...doclock.AcquireOption) (*doclock.Lease, error){
		func(opts ...doclock.AcquireOption) (*doclock.Lease, error) {
			return l.Acquire(p.bounded(), flowers, "read", opts...)
		},
		func(opts ...doclock.AcquireOption) (*doclock.Lease, error) {
			return l.TryAcquire(p.bounded(), flowers, "read", opts...)
		},
	} {
		doc.Total = 0
		p.sends(w, 1, "acquire", func() error {
			second, err := acquire(doclock.Into(&doc))
			if err == nil && second.ID() != first.ID() {
				t.Error("it has an entry of its own")
			}
			return err
		})
		if doc.Total != 7 {
			t.Errorf("the document has %d, want 7", doc.Total)
		}
		var wrong struct{ Name int }
		p.sends(w, 1, "acquire", func() error {
			if _, err := acquire(doclock.Into(&wrong)); err == nil {
				t.Error("a text was decoded into a number")
			}
			return nil
		})
	}
	ticket := p.enqueue(l, "read")
	open, err := l.Acquire(p.bounded(), bson.M{"_id": 1, "name": "flowers"}, "read")
	if err != nil {
		t.Fatal(err)
	}
	named, err := l.Acquire(p.bounded(), byName, "read")
	if err != nil {
		t.Fatal(err)
	}
	ticketed, err := ticket.Confirm(p.bounded())
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(first, open, named, ticketed)
}

func TestShareIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for tag, reason := range map[string]string{
		"write": `holders of "write" can't share an entry: it respects itself (cooperative)`,
		"reed":  `ShareInProcess is for "reed", which is not a tag of the rules (tags: read, write)`,
	} {
		_, err := multilock.New(p.coll, relations.ReadPreferring(), doclock.ShareInProcess("read", tag))
		p.want(err, doclock.ErrInvalidArgument)
		if want := doclock.ErrInvalidArgument.Error() + ": " + reason; err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
