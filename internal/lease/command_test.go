package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A caller who detaches the context of KeepAlive waits for the answer, also after the
// end of the context that KeepAlive was given.
func TestACallerDetachesTheContextOfKeepAlive(t *testing.T) {
	virtual(t, func(r *rig) {
		outer, cancel := context.WithCancel(context.Background())
		h := r.take(1, "write")
		kept := h.KeepAlive(outer)
		cancel()
		if err := h.Renew(kept); !errors.Is(err, context.Canceled) {
			t.Errorf("Renew in the context that has ended = %v", err)
		}
		other := r.take(2, "write") // a release is sent all the same
		r.wantErr("Release in the context that has ended", other.Release(kept), nil)
		r.wantErr("Release again", other.Release(context.Background()), nil)
		r.wantSent("release")
		if err := h.Renew(context.WithoutCancel(kept)); err != nil {
			t.Errorf("Renew = %v", err)
		}
		bounded, stop := context.WithTimeout(context.WithoutCancel(kept), time.Second)
		defer stop()
		if err := h.Release(bounded); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// A caller who releases in the context of KeepAlive gives up with the context that
// KeepAlive was given, or at a deadline of his own, also once the lease itself has ended
// the inner one.
func TestACallerGivesUpWithTheOuterContext(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		virtual(t, func(r *rig) {
			outer, cancel := context.WithCancel(context.Background())
			h := r.take(1, "write")
			ctx := h.KeepAlive(outer)
			if want == context.Canceled {
				time.AfterFunc(time.Second, cancel)
			} else {
				ctx, cancel = context.WithTimeout(ctx, time.Second)
			}
			defer cancel()
			r.fault(func(ctx context.Context, _ call) error {
				<-ctx.Done()
				return ctx.Err()
			})
			begun := time.Now()
			if err := h.Release(ctx); !errors.Is(err, doclock.ErrOutcomeUnknown) || !errors.Is(err, want) || time.Since(begun) != time.Second {
				t.Errorf("Release after %v = %v", time.Since(begun), err)
			}
		})
	}
}

// A caller whose own deadline has passed after the loss that has ended his context, as in a defer, waits for the
// answer all the same.
func TestAReleaseAfterTheLossAndTheDeadline(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		ctx, cancel := context.WithTimeout(h.KeepAlive(context.Background()), time.Second)
		defer cancel()
		r.remove(h)
		r.wantErr("Renew", h.Renew(context.Background()), doclock.ErrLost)
		time.Sleep(time.Minute)
		r.delay("release", time.Second)
		err := h.Release(ctx)
		if r.wantErr("Release", err, doclock.ErrLost); errors.Is(err, doclock.ErrOutcomeUnknown) {
			r.Errorf("Release: %v", err)
		}
	})
}

// A caller who leaves while his command waits for a renewal leaves the lease as it is.
func TestACallerLeavesBehindARenewal(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.delay("renew", time.Second)
		go func() { _ = h.Renew(context.Background()) }()
		synctest.Wait()
		bounded := func(d time.Duration, command func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			return command(ctx)
		}
		for name, command := range map[string]func(context.Context) error{
			"UpdateAndRelease": func(ctx context.Context) error { return h.UpdateAndRelease(ctx, increment) },
			"Delete":           h.Delete,
			"Detach":           func(ctx context.Context) error { _, err := h.Detach(ctx); return err },
			"Convert":          func(ctx context.Context) error { _, err := h.Convert(ctx, "read"); return err },
		} {
			r.wantErr(name, bounded(time.Millisecond, command), context.DeadlineExceeded)
		}
		r.wantErr("Update", bounded(ttl, func(ctx context.Context) error { return h.Update(ctx, increment) }), nil)
		r.wantSent("renew", "write")
	})
}

// An Update that waits for another one, while a Release comes, is not sent, and says so.
func TestAnUpdateThatAReleaseOvertakes(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.fault(func(context.Context, call) error { time.Sleep(time.Second); return nil })
		var errs [2]error
		for i := range errs {
			go func() {
				errs[i] = h.Update(context.Background(), bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: i}}}})
			}()
			synctest.Wait()
		}
		r.wantErr("release", h.Release(context.Background()), nil)
		synctest.Wait()
		r.wantErr("the first update", errs[0], nil)
		r.wantErr("the second update", errs[1], doclock.ErrReleased)
		r.wantSent("write", "release")
	})
}

// A caller whose time is up is told that, and not that somebody has cancelled.
func TestACallersDeadline(t *testing.T) {
	mine := errors.New("too slow for me")
	for range 20 { // of two timers, any may be the first
		virtual(t, func(r *rig) {
			r.fault(func(context.Context, call) error { time.Sleep(time.Minute); return nil })
			for name, end := range map[string]func(*Lease, context.Context) error{
				"Release": (*Lease).Release, "Renew": (*Lease).Renew, "Delete": (*Lease).Delete,
			} {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, mine)
				defer cancel()
				err := end(r.take(1, "write"), ctx)
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mine) || errors.Is(err, context.Canceled) {
					r.Fatalf("%s: %v", name, err)
				}
			}
		})
	}
}

// unsendable is a server to which no last write can be sent before a signal.
type unsendable struct {
	*server
	let chan struct{}
}

func (u *unsendable) WriteAndRelease(ctx context.Context, g engine.Grant, up *engine.Update) (engine.Answer, error) {
	<-u.let
	return u.server.WriteAndRelease(ctx, g, up)
}

// A lease that goes on, because its last command was not sent, is still one of its Locker's: Close names it.
func TestALeaseThatGoesOnIsLeft(t *testing.T) {
	virtual(t, func(r *rig) {
		let := make(chan struct{})
		r.commands = &unsendable{r.server, let}
		l := r.take(1, "write")
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		err := l.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"x": 1}})
		close(let)
		synctest.Wait()
		if err == nil || l.Err() != nil || len(r.entries(l)) != 1 {
			t.Fatal(err, l.Err())
		}
		if n := len(r.Left()); n != 1 {
			t.Errorf("%d leases are left", n)
		}
		if !r.Valid(l.DocumentID(), l.ID()) {
			t.Error("the lease counts as somebody else's")
		}
	})
}
