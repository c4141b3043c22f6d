package multilock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestTryAcquireGrants(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.WritePreferring(), at.drive(), doclock.Owner("ann"), doclock.TTL(4*time.Second), doclock.ClockTolerance(time.Second))
	lease := p.try(l, "write")

	id := lease.ID()
	want := lock{
		Fence: at.now().UnixMilli(),
		Tags: map[string][]entry{"write": {{
			ID:      bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]},
			Owner:   "ann",
			Seq:     at.now().UnixMilli(),
			Fence:   at.now().UnixMilli(),
			Since:   at.now(),
			Expires: at.now().Add(5 * time.Second),
		}}},
	}
	if diff := cmp.Diff(want, p.lock()); diff != "" {
		t.Errorf("the lock in the document (- want, + got):\n%s", diff)
	}
	if lease.Tag() != "write" || lease.Fence() != want.Fence || lease.DocumentID().AsInt64() != 1 {
		t.Errorf("the lease is of tag %q, fence %d, document %v", lease.Tag(), lease.Fence(), lease.DocumentID())
	}
	if err := lease.Err(); err != nil {
		t.Errorf("the new lease has ended: %v", err)
	}
	p.release(lease)
	p.wantEntries()
}

// A refusal names the entries in the way: those that the tag respects, held or
// waiting, and no others.
func TestTryAcquireConflictNamesTheHolders(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	opts := []doclock.Option{at.drive(), doclock.TTL(10 * time.Second), doclock.WaitTTL(3 * time.Second), doclock.ClockTolerance(0)}
	ann := p.locker(p.coll, relations.WritePreferring(), append(opts, doclock.Owner("ann"))...)
	bob := p.locker(p.coll, relations.WritePreferring(), append(opts, doclock.Owner("bob"))...)

	reader := p.try(ann, "read")
	since := at.now()
	at.pass(time.Second)
	writer := p.enqueue(bob, "write")
	at.pass(time.Second)
	before := p.raw()

	_, err := ann.TryAcquire(t.Context(), flowers, "read")
	p.want(err, doclock.ErrConflict)
	got := p.conflict(err)
	want := doclock.Holder{Tag: "write", ID: writer.ID(), Owner: "bob", Since: since.Add(time.Second), Waiting: true, Remaining: 2 * time.Second}
	if diff := cmp.Diff([]doclock.Holder{want}, got.Holders); diff != "" {
		t.Errorf("in the way of the reader (- want, + got):\n%s", diff)
	}
	if got.Tag != "read" || got.DocumentID.AsInt64() != 1 || got.RetryAfter != 2*time.Second {
		t.Errorf("the conflict is %+v", got)
	}
	for _, part := range []string{`"read"`, "document", `"write" of bob`, "waiting", "2s left"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q doesn't say %q", err, part)
		}
	}

	_, err = bob.TryAcquire(t.Context(), flowers, "write")
	got = p.conflict(err)
	held := doclock.Holder{Tag: "read", ID: reader.ID(), Owner: "ann", Since: since, Remaining: 8 * time.Second}
	if diff := cmp.Diff([]doclock.Holder{held, want}, got.Holders); diff != "" {
		t.Errorf("in the way of the writer (- want, + got):\n%s", diff)
	}
	if got.RetryAfter != 8*time.Second {
		t.Errorf("RetryAfter is %v; the last of those in the way expires in 8s", got.RetryAfter)
	}
	if !strings.Contains(err.Error(), `"read" of ann (held, 8s left), "write" of bob (waiting, 2s left)`) {
		t.Errorf("the error is %q", err)
	}
	if diff := cmp.Diff(before, p.raw()); diff != "" {
		t.Errorf("the refusals left something behind (- before, + after):\n%s", diff)
	}
}

// RetryAfter of a semaphore is when the first seat becomes free, not the last.
func TestTryAcquireConflictOfSemaphoreSaysWhenTheFirstSeatBecomesFree(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Semaphore(3), at.drive(), doclock.TTL(10*time.Second), doclock.ClockTolerance(0))
	for range 3 {
		p.try(l, "slot")
		at.pass(time.Second)
	}
	_, err := l.TryAcquire(t.Context(), flowers, "slot")
	if got := p.conflict(err); len(got.Holders) != 3 || got.RetryAfter != 7*time.Second {
		t.Errorf("%d holders, RetryAfter %v; want 3, 7s", len(got.Holders), got.RetryAfter)
	}
}

func TestTryAcquireNotFound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	for _, filter := range []bson.M{{"_id": 2}, {"name": "weeds"}, {"_id": 1, "name": "weeds"}} {
		lease, err := l.TryAcquire(t.Context(), filter, "write")
		p.want(err, doclock.ErrNotFound)
		if lease != nil {
			t.Errorf("%v: there is a lease", filter)
		}
	}
	if n, err := p.coll.CountDocuments(t.Context(), bson.M{}); n != 1 || err != nil {
		t.Errorf("there are %d documents (%v)", n, err)
	}
}

func TestForeignLockIsLeftUntouched(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	for _, foreign := range []any{
		"locked by ann", true, 7, bson.A{}, bson.M{"tags": "read"}, bson.M{"tags": bson.M{"read": 1}},
		bson.M{"tags": bson.M{"read": bson.A{"ann"}}}, bson.M{"fence": "first"},
	} {
		p.change(bson.M{"$set": bson.M{"lock": foreign}})
		before := p.raw()
		_, err := l.TryAcquire(t.Context(), flowers, "write")
		p.want(err, doclock.ErrForeignLock)
		p.wantNot(err, doclock.ErrConflict)
		if err != nil && !strings.Contains(err.Error(), `"lock"`) {
			t.Errorf("the error doesn't name the field: %v", err)
		}
		_, err = l.Enqueue(t.Context(), flowers, "write")
		p.want(err, doclock.ErrForeignLock)
		_, err = l.Acquire(p.bounded(), flowers, "write")
		p.want(err, doclock.ErrForeignLock)
		if diff := cmp.Diff(before, p.raw()); diff != "" {
			t.Errorf("%v was changed (- before, + after):\n%s", foreign, diff)
		}
	}
}

// A lock in another field ignores the foreign field.
func TestFieldKeepsAwayFromForeignLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.change(bson.M{"$set": bson.M{"lock": "locked by ann"}})
	lease := p.try(p.locker(p.coll, relations.Exclusive(), doclock.Field("mutex")), "write")
	if got, _ := p.raw().Lookup("lock").StringValueOK(); got != "locked by ann" {
		t.Errorf("the other field is now %q", got)
	}
	if fence := p.raw().Lookup("mutex", "fence").AsInt64(); fence != lease.Fence() {
		t.Errorf("lock.fence is %d, the lease's fencing token %d", fence, lease.Fence())
	}
	p.release(lease)
}

// A live entry under a tag that the rules don't have refuses every arrival.
func TestUnknownTagInTheDocumentRefusesArrivals(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	rules := relations.Rules{"read": nil, "write": {"read": {Kind: relations.Assertive}}}
	ours := p.locker(p.coll, rules, at.drive())
	theirs := p.locker(p.coll, relations.Rules{"audit": nil}, at.drive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
	auditor := p.try(theirs, "audit")

	for tag := range rules {
		_, err := ours.Enqueue(t.Context(), flowers, tag)
		c := p.conflict(err)
		if len(c.Holders) != 1 || c.Holders[0].ID != auditor.ID() || c.Holders[0].Tag != "audit" {
			t.Errorf("in the way of %q: %+v", tag, c.Holders)
		}
	}
	p.wantEntries(auditor)
	at.pass(time.Second)
	p.wantEntries(auditor)
	p.wantEntries(p.try(ours, "read")) // an expired entry of an unknown tag is pruned too
}

// A held entry under such a tag blocks a confirm too: a client with other rules
// has acquired it during the wait.
func TestUnknownTagThatCameDuringTheWaitBlocksTheConfirm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ours := p.locker(p.coll, relations.WritePreferring())
	reader := p.try(ours, "read")
	writer := p.enqueue(ours, "write")
	theirs := p.locker(p.coll, relations.Rules{"audit": nil, "read": nil, "write": nil})
	auditor := p.try(theirs, "audit")
	p.release(reader)
	_, err := writer.Confirm(t.Context())
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != auditor.ID() {
		t.Errorf("in the way: %+v", c.Holders)
	}
	p.release(auditor)
	lease, err := writer.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
}

// A TagTTL applies to its tag alone, as monglock's locktimeouts do.
func TestTagTTL(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.WritePreferring(), at.drive(),
		doclock.TTL(10*time.Second), doclock.TagTTL("read", 2*time.Second), doclock.ClockTolerance(0))
	lease := p.try(l, "read")
	if got := p.entries("read")[0].Expires.Sub(at.now()); got != 2*time.Second {
		t.Errorf("the reader is kept for %v", got)
	}
	if r := lease.Remaining(); r > 2*time.Second {
		t.Errorf("the reader's lease is valid for %v", r)
	}
	p.release(lease)
	p.try(l, "write")
	if got := p.entries("write")[0].Expires.Sub(at.now()); got != 10*time.Second {
		t.Errorf("the writer is kept for %v", got)
	}
}

// The next grant prunes an expired holder, and that holder's own release then
// returns the loss.
func TestTryAcquireTakesOverWhatHasExpired(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Exclusive(), at.drive(), doclock.TTL(10*time.Second), doclock.ClockTolerance(time.Second))
	old := p.try(l, "write")

	at.pass(11*time.Second - time.Millisecond)
	_, err := l.TryAcquire(t.Context(), flowers, "write")
	if c := p.conflict(err); c.RetryAfter != time.Millisecond {
		t.Errorf("RetryAfter is %v, a millisecond before the expiry", c.RetryAfter)
	}
	at.pass(time.Millisecond)
	lease := p.try(l, "write")
	p.wantEntries(lease)
	if lease.Fence() <= old.Fence() {
		t.Errorf("the fencing token went from %d to %d", old.Fence(), lease.Fence())
	}
	p.want(old.Release(context.Background()), doclock.ErrLost)
	p.wantEntries(lease)
}

// Fencing tokens increase from grant to grant, even if the clock stops or goes
// back, and after the document was deleted and made again.
func TestFencingTokensIncrease(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Exclusive(), at.drive())
	last := int64(0)
	for _, step := range []func(){
		func() {}, func() {}, func() { at.pass(-time.Hour) }, func() { at.pass(2 * time.Hour) },
		func() { at.pass(time.Millisecond); p.remove(); p.insert() },
	} {
		step()
		lease := p.try(l, "write")
		if lease.Fence() <= last {
			t.Errorf("the fencing token %d came after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		p.release(lease)
	}
}
