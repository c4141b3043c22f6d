package multilock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/adjust"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestTryAcquireGrants(t *testing.T) {
	virtual(t, func(p *place) {
		at := &clock{}
		l := p.locker(p.coll, relations.WritePreferring(), at.drive(), doclock.Owner("ann"), doclock.TTL(4*time.Second), doclock.ClockTolerance(time.Second))
		lease := p.try(l, "write")

		id := lease.ID()
		want := lock{
			Fence: at.Now().UnixMilli(),
			Tags: map[string][]entry{"write": {{
				ID:      bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]},
				Owner:   "ann",
				Seq:     at.Now().UnixMilli(),
				Fence:   at.Now().UnixMilli(),
				Since:   at.Now(),
				Expires: at.Now().Add(5 * time.Second),
			}}},
		}
		if diff := cmp.Diff(want, p.lock()); diff != "" {
			p.Errorf("the lock in the document (- want, + got):\n%s", diff)
		}
		if lease.Tag() != "write" || lease.Fence() != want.Fence || lease.DocumentID().AsInt64() != 1 {
			p.Errorf("the lease is of tag %q, fence %d, document %v", lease.Tag(), lease.Fence(), lease.DocumentID())
		}
		ok(p, lease.Err())
		p.release(lease)
		p.wantEntries()
	})
}

// A refusal names the entries in the way: those that the tag respects, held or
// waiting, and no others.
func TestTryAcquireConflictNamesTheHolders(t *testing.T) {
	virtual(t, func(p *place) {
		at := &clock{}
		opts := []doclock.Option{at.drive(), doclock.TTL(10 * time.Second), adjust.WaitTTL(3 * time.Second), doclock.ClockTolerance(0)}
		ann := p.locker(p.coll, relations.WritePreferring(), append(opts, doclock.Owner("ann"))...)
		bob := p.locker(p.coll, relations.WritePreferring(), append(opts, doclock.Owner("bob"))...)

		reader := p.try(ann, "read")
		since := at.Now()
		at.Pass(time.Second)
		writer := p.enqueue(bob, "write")
		at.Pass(time.Second)
		before := p.Stored()

		_, err := ann.TryAcquire(p.Context(), flowers, "read")
		p.want(err, doclock.ErrConflict)
		got := p.conflict(err)
		want := doclock.Holder{Tag: "write", ID: writer.ID(), Owner: "bob", Since: since.Add(time.Second), Waiting: true, Remaining: 2 * time.Second}
		if diff := cmp.Diff([]doclock.Holder{want}, got.Holders); diff != "" {
			p.Errorf("in the way of the reader (- want, + got):\n%s", diff)
		}
		if got.Tag != "read" || got.DocumentID.AsInt64() != 1 || got.RetryAfter != 2*time.Second {
			p.Errorf("the conflict is %+v", got)
		}
		for _, part := range []string{`"read"`, "document", `"write" of bob`, "waiting", "2s left"} {
			if !strings.Contains(err.Error(), part) {
				p.Errorf("the error %q doesn't say %q", err, part)
			}
		}

		_, err = bob.TryAcquire(p.Context(), flowers, "write")
		got = p.conflict(err)
		held := doclock.Holder{Tag: "read", ID: reader.ID(), Owner: "ann", Since: since, Remaining: 8 * time.Second}
		if diff := cmp.Diff([]doclock.Holder{held, want}, got.Holders); diff != "" {
			p.Errorf("in the way of the writer (- want, + got):\n%s", diff)
		}
		if got.RetryAfter != 8*time.Second {
			p.Errorf("RetryAfter is %v; the last of those in the way expires in 8s", got.RetryAfter)
		}
		if !strings.Contains(err.Error(), `"read" of ann (held, 8s left), "write" of bob (waiting, 2s left)`) {
			p.Errorf("the error is %q", err)
		}
		_, err = ann.TryAcquire(p.Context(), flowers, "write")
		held.InProcess = true // the reader is ann's own
		if diff := cmp.Diff([]doclock.Holder{held, want}, p.conflict(err).Holders); diff != "" {
			p.Errorf("in the way of a writer of the reader's own Locker (- want, + got):\n%s", diff)
		}
		if !strings.Contains(err.Error(), `"read" of ann (held in this process, 8s left)`) {
			p.Errorf("the error is %q", err)
		}
		if diff := cmp.Diff(before, p.Stored()); diff != "" {
			p.Errorf("the refusals left something behind (- before, + after):\n%s", diff)
		}
	})
}

// RetryAfter of a semaphore is when the first seat becomes free, not the last. Each acquire is
// decided by its own Locker's rules: beside Semaphore(3), one with Semaphore(5) lets in a fourth
// holder.
func TestSemaphores(t *testing.T) {
	virtual(t, func(p *place) {
		at := &clock{}
		opts := []doclock.Option{at.drive(), doclock.TTL(10 * time.Second), doclock.ClockTolerance(0)}
		three, five := p.locker(p.coll, relations.Semaphore(3), opts...), p.locker(p.coll, relations.Semaphore(5), opts...)
		for range 3 {
			p.try(three, "slot")
			at.Pass(time.Second)
		}
		_, err := three.TryAcquire(p.Context(), flowers, "slot")
		if got := p.conflict(err); len(got.Holders) != 3 || got.RetryAfter != 7*time.Second {
			p.Errorf("%d holders, RetryAfter %v; want 3, 7s", len(got.Holders), got.RetryAfter)
		}
		p.try(five, "slot")
		p.try(five, "slot")
		p.conflict(errOf(five.TryAcquire(p.Context(), flowers, "slot")))
	})
}
