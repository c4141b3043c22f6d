package lease

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// convert converts to "read".
func (r *rig) convert(h *Lease, want error) *Lease {
	r.Helper()
	held, err := h.convert(context.Background(), "read")
	r.wantErr("Convert", err, want)
	if (held != nil) != (want == nil) {
		r.Fatalf("a lease %v beside %v", held != nil, err)
	}
	return held
}

// refuses puts another holder into the document, or takes him out: the server refuses conversions beside him.
func (r *rig) refuses(h *Lease, refuses bool) {
	r.Helper()
	r.change(h, bson.M{"$pull": bson.M{"lock.tags.write": bson.M{"owner": "bob"}}})
	if refuses {
		bob := bson.M{"id": uuidOf(uuid.New()), "owner": "bob", "seq": int64(1), "fence": int64(1), "expires": time.Now().Add(time.Hour)}
		r.change(h, bson.M{"$push": bson.M{"lock.tags.write": bob}})
	}
}

// A context that KeepAlive makes during a conversion is that of the lease: it goes on if
// the conversion is refused, with renewals, and ends with the lease if it is granted.
func TestKeepAliveDuringAConversion(t *testing.T) {
	virtual(t, func(r *rig) {
		for _, refused := range []bool{true, false} {
			h := r.take(1, "write")
			r.refuses(h, refused)
			r.delay("convert", time.Second)
			made := make(chan context.Context, 1)
			time.AfterFunc(time.Second/2, func() { made <- h.KeepAlive(context.Background()) })
			want := error(nil)
			if refused {
				want = doclock.ErrConflict
			}
			r.convert(h, want)
			kept := <-made
			if !refused {
				<-kept.Done()
				r.wantErr("KeepAlive", context.Cause(kept), doclock.ErrReleased)
				continue
			}
			time.Sleep(3 * ttl)
			r.wantErr("KeepAlive", context.Cause(kept), nil)
			r.wantErr("Err", h.Err(), nil)
			r.wantErr("Release", h.Release(context.Background()), nil)
		}
	})
}

// A handle that was converted has ended: it sends nothing more. The new one is
// a lease of its own.
func TestConversionEndsTheHandle(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		kept := h.KeepAlive(context.Background())
		next := r.convert(h, nil)
		r.wantEnded(h, kept)
		r.wantSent("convert")

		if next.Tag() != "read" || next.ID() == h.ID() || next.Fence() <= h.Fence() || !r.Valid(next.DocumentID(), next.ID()) {
			r.Errorf("the new lease is %+v", next.grant)
		}
		r.wantErr("the new Err", next.Err(), nil)
		r.wantErr("the new Update", next.Update(context.Background(), increment), nil)
		r.wantErr("the new Release", next.Release(context.Background()), nil)
		r.wantSent("convert", "write", "release")
	})
}

// Rule 24. Validity under the old tag ends at the send. Without it the conversion
// was executed, the answer is lost, and others are let in beside a valid lease.
func TestRule24ConversionEndsTheValidityAtItsSend(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error {
			r.wantErr("Err at the send", h.Err(), doclock.ErrOutcomeUnknown)
			if h.Remaining() != 0 {
				r.Errorf("%v left at the send", h.Remaining())
			}
			return nil
		}
		r.delay("convert", time.Second)
		begun := time.Now()
		next := r.convert(h, nil)
		if left, want := next.Remaining(), ttl-resolution-time.Since(begun); left != want { // rule 4
			r.Errorf("%v left of the new lease, want %v", left, want)
		}
	})
}

// A refusal leaves the lease with the validity that it had at the send.
func TestConversionRefused(t *testing.T) {
	virtual(t, func(r *rig) {
		waits, h := r.somebody(), r.take(1, "write")
		kept := h.KeepAlive(context.Background())
		done := h.Done()
		_, err := h.Convert(context.Background(), "nap")
		r.wantErr("Convert to an unknown tag", err, doclock.ErrInvalidArgument)
		time.Sleep(time.Second)
		r.refuses(h, true)
		r.delay("convert", time.Second)
		begun, left := time.Now(), h.Remaining()
		r.convert(h, doclock.ErrConflict)
		if got, want := h.Remaining(), left-time.Since(begun); got != want {
			r.Errorf("%v left, want %v", got, want)
		}
		select {
		case <-done:
			r.Error("Done is closed")
		case <-kept.Done():
			r.Error("the context has ended")
		default:
		}
		if waits.released != 0 {
			r.Error("a refusal wakes the waiters")
		}
		r.wantErr("Err", h.Err(), nil)
		r.wantErr("Update", h.Update(context.Background(), increment), nil)
		r.wantErr("Renew", h.Renew(context.Background()), nil)
		r.refuses(h, false)
		r.convert(h, nil)
		r.wantSent("convert", "write", "renew", "convert")
	})
}

// Rule 24. A conversion takes the number of a write. Without it the next write
// has the number that the refusal has written down, and is not applied.
func TestRule24ConversionTakesANumber(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.wantErr("Update", h.Update(context.Background(), increment), nil)
		r.refuses(h, true)
		r.convert(h, doclock.ErrConflict)
		if n := r.entry(h).Writes; n != 2 {
			r.Errorf("the refusal has written down %d", n)
		}
		r.wantErr("Update", h.Update(context.Background(), increment), nil)
		if n := r.entry(h).Writes; n != 3 {
			r.Errorf("the write after it has the number %d", n)
		}
	})
}

// The new lease has the TTL that the acquire has chosen, also if that is its tag's, or else the new tag's.
func TestConversionKeepsTheChosenTTL(t *testing.T) {
	virtual(t, func(r *rig) {
		next := r.convert(r.take(1, "write"), nil)
		back, err := next.convert(context.Background(), "write")
		r.wantErr("Convert", err, nil)
		if next.grant.TTL != 2*ttl || back.grant.TTL != ttl {
			r.Errorf("the tags' TTLs are %v, and then %v", next.grant.TTL, back.grant.TTL)
		}
		for i, own := range []time.Duration{time.Minute, ttl} {
			h := r.New(r.grantBy(2+i, "write", engine.Terms{TTL: own}), r.engine.Clocks())
			if next := r.convert(h, nil); next.grant.TTL != own {
				r.Errorf("the chosen TTL of %v became %v", own, next.grant.TTL)
			}
		}
	}, func(c *engine.Config) { c.TagTTL = map[string]time.Duration{"read": 2 * ttl} })
}

// Attempts of the acquire may enter the old id yet.
func TestConversionLeavesUnansweredAttempts(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.doubted(1, "write")
		r.refuses(h, true)
		r.convert(h, doclock.ErrConflict)
		r.refuses(h, false)
		r.wantUnanswered()
		r.convert(h, nil)
		_ = h.Release(context.Background())
		r.wantUnanswered(h.ID())
	})
}

// If no attempt is answered, the old entry is released first, and then the new id
// is removed. Rule 24: in the other order the new id is removed before a late
// attempt makes it.
func TestRule24CleanUpReleasesTheOldIDFirst(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(_ context.Context, c call) error {
			if c.name == "convert" {
				return errReplyLost
			}
			if len(r.unanswered) != 0 {
				r.Error("the new id is removed before the release")
			}
			return nil
		}
		begun := time.Now()
		r.convert(h, doclock.ErrOutcomeUnknown)
		if took := time.Since(begun); took > 2*ttl {
			r.Errorf("it took %v", took)
		}
		if len(r.unanswered) != 1 || r.unanswered[0].Tag != "read" || r.unanswered[0].ID == h.ID() {
			r.Errorf("the clean-up is of %v", r.unanswered)
		}
		sent := r.server.sent()
		if last := sent[len(sent)-1]; last != "release" || len(r.entries(h)) != 0 {
			r.Errorf("sent %v, there are %v", sent, r.entries(h))
		}
		r.server.forget()
		r.wantErr("Update", h.Update(context.Background(), increment), doclock.ErrReleased)
		r.wantErr("Release", h.Release(context.Background()), doclock.ErrOutcomeUnknown)
		r.wantSent()
	})
}

// If the server refuses that release, the holder may release the entry. Until then
// nobody knows whether others were let in.
func TestConversionOfUnknownOutcomeWhoseReleaseIsRefused(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		first := true
		r.server.fault = func(context.Context, call) error {
			if first {
				first = false
				return errReplyLost
			}
			return &engine.Failure{Nothing: true}
		}
		r.convert(h, doclock.ErrOutcomeUnknown)
		if h.left() <= 0 {
			r.Fatal("the lease's time is up")
		}
		r.wantErr("Release", h.Release(context.Background()), doclock.ErrOutcomeUnknown)
		if len(r.unanswered) != 1 {
			r.Errorf("the clean-up is of %v", r.unanswered)
		}
		if h.Err() == nil {
			r.Error("it is valid")
		}
		r.server.fault = nil
		r.server.forget()
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("release")
	})
}
