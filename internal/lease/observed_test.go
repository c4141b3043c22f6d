package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// events collects what an observer gets.
type events struct {
	mu  sync.Mutex
	all []doclock.Event
	ctx []context.Context
}

// observe has the rig's leases observed.
func (r *rig) observe() *events {
	e := &events{}
	r.Leases.observer = NewObserver("", []any{func(ctx context.Context, of doclock.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all, e.ctx = append(e.all, of), append(e.ctx, ctx)
	}})
	return e
}

// take returns the events since the last call.
func (e *events) take() (all []doclock.Event) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	all, e.all, e.ctx = e.all, nil, nil
	return all
}

// kinds are the kinds of the events since the last call, each with its commands.
func (e *events) kinds() (kinds []string) {
	for _, of := range e.take() {
		kinds = append(kinds, fmt.Sprint(cmp.Or(string(of.How), string(of.Kind)), " ", of.Commands))
	}
	return kinds
}

func (r *rig) wantEvents(e *events, want ...string) {
	r.Helper()
	if kinds := e.kinds(); !slices.Equal(kinds, want) {
		r.Errorf("got %q, want %q", kinds, want)
	}
}

// announced takes a lease that a caller gets.
func (r *rig) announced(id int, tag string) *Lease {
	h := r.take(id, tag)
	h.Announce(context.Background(), doclock.Event{Owner: "ann", Waited: time.Second, Commands: 7})
	return h
}

// fault has commands meet a fault from now on.
func (r *rig) fault(fault func(context.Context, call) error) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.server.fault = fault
}

// A lease whose renewals fail emits each failure, and its loss at the moment when
// its time is up, without anybody who looks. Its release sends no second end.
func TestEventsOfALeaseThatCannotBeRenewed(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		h := r.announced(1, "write")
		r.keep(h)
		time.Sleep(ttl / 2)
		r.wantEvents(e, "granted 7", "renewed 1")
		down := errors.New("down")
		r.fault(func(context.Context, call) error { return down })
		time.Sleep(2 * ttl)
		all := e.take()
		failed := 0
		for _, of := range all {
			if of.Kind == doclock.EventRenewalFailed && errors.Is(of.Err, down) && of.Commands == failed+2 {
				failed++
			}
		}
		last := all[len(all)-1]
		if failed < 3 || failed != len(all)-1 {
			t.Errorf("%d renewals have failed in %d events", failed, len(all))
		}
		if last.Kind != doclock.EventLost || !errors.Is(last.Err, doclock.ErrLost) || last.Owner != "ann" || last.LeaseID != h.ID() || last.Fence != h.Fence() || last.Tag != "write" || !last.DocumentID.Equal(h.DocumentID()) {
			t.Errorf("at the end: %+v", last)
		}
		if want := ttl/3 + ttl; last.Held < want-aLittle || last.Held > want+ttl/9+aLittle {
			t.Errorf("held for %v, want about %v", last.Held, want)
		}
		r.fault(nil)
		if err := h.Release(context.Background()); err != nil {
			t.Errorf("Release = %v", err)
		}
		r.wantEvents(e)
	})
}

// A lease that nobody renews or releases has an end too.
func TestEventsOfALeaseThatIsLeftAlone(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		r.announced(1, "write")
		time.Sleep(ttl - 2*resolution)
		r.wantEvents(e, "granted 7")
		time.Sleep(2 * resolution)
		r.wantEvents(e, "lost 0")
	})
}

// A lease without a caller sends no events, whatever becomes of it. One that is lost
// before its caller has it sends both.
func TestEventsOfALeaseWithoutACaller(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		released, lost := r.take(1, "write"), r.take(2, "write")
		if err := released.Release(context.Background()); err != nil {
			t.Error(err)
		}
		r.fault(func(context.Context, call) error { return errors.New("down") })
		time.Sleep(2 * ttl)
		_ = lost.Release(context.Background())
		r.wantEvents(e)
		lost.Announce(context.Background(), doclock.Event{})
		r.wantEvents(e, "granted 0", "lost 0")
	})
}

// Each caller who has got the lease has both events of his own, and each renewal is emitted
// once. A command of the entry counts for all that have it then.
func TestEventsOfSeveralCallers(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		l := r.announced(1, "read")
		r.keep(l)
		time.Sleep(ttl / 2)
		second := l.Announce(context.Background(), doclock.Event{Owner: "ann"})
		third := l.Announce(context.Background(), doclock.Event{})
		time.Sleep(ttl / 3)
		r.wantEvents(e, "granted 7", "renewed 1", "granted 0", "granted 0", "renewed 2")
		second.End(context.Background(), nil)
		third.End(context.Background(), l.Released())
		r.wantEvents(e, "released 1", "released 1")
		_ = l.Release(context.Background())
		second.End(context.Background(), nil)
		r.wantEvents(e, "released 3")
	})
}

// A renewal is emitted for a caller who still has the lease.
func TestEventsOfACallerWhoStays(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		l := r.take(1, "read")
		r.keep(l)
		first := l.Announce(context.Background(), doclock.Event{Owner: "ann"})
		l.Announce(context.Background(), doclock.Event{Owner: "bob"})
		first.End(context.Background(), nil)
		e.take()
		time.Sleep(ttl / 2)
		if all := e.take(); len(all) != 1 || all[0].Kind != doclock.EventRenewed || all[0].Owner != "bob" {
			t.Errorf("got %+v", all)
		}
	})
}

// A renewal whose caller leaves before it is sent has not failed.
func TestEventsOfARenewalThatIsNotSent(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		h := r.announced(1, "write")
		revoked := &engine.Sending{}
		revoked.Revoke()
		if err := h.renew(engine.WithSending(context.Background(), revoked), h.bounds(), func(error) {}); !errors.Is(err, engine.ErrRevoked) {
			t.Errorf("renew = %v", err)
		}
		r.wantEvents(e, "granted 7")
	})
}

// The renewals of many leases by one command are emitted for each of them, and so is
// the loss that it finds.
func TestEventsOfABatch(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		all := r.many(3)
		for _, h := range all {
			h.Announce(context.Background(), doclock.Event{})
		}
		r.keep(all...)
		e.take()
		time.Sleep(ttl / 2)
		r.wantEvents(e, "renewed 1", "renewed 1", "renewed 1")
		r.remove(all[1])
		time.Sleep(ttl / 3)
		r.wantEvents(e, "renewed 3", "lost 3", "renewed 3") // the renewal, and the read that names the lost one
		r.fault(func(_ context.Context, c call) error {
			if c.name == "renew all" {
				return errors.New("down")
			}
			return nil
		})
		time.Sleep(ttl / 3)
		if got := e.kinds(); !slices.Contains(got, "renewal failed 4") || slices.Contains(got, "renewed 5") {
			t.Errorf("got %q", got)
		}
	})
}

// The observer's context has the values of the caller's: of the acquire's in the
// background, of the release's at a release. It has neither an end nor the state of
// a command. The lease keeps the acquire's until its end.
func TestContextsOfEvents(t *testing.T) {
	type key struct{}
	virtual(t, func(r *rig) {
		e := r.observe()
		acquiring, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "acquire"))
		h := r.take(1, "write")
		h.Announce(acquiring, doclock.Event{})
		cancel()
		r.keep(h)
		time.Sleep(ttl / 2)
		if err := h.Release(context.WithValue(context.Background(), key{}, "release")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		var values []any
		for _, ctx := range e.ctx {
			values = append(values, ctx.Value(key{}))
			if ctx.Err() != nil || engine.BeginSending(ctx) != nil {
				t.Error("the context has ended")
			}
		}
		if want := []any{"acquire", "acquire", "release"}; !slices.Equal(values, want) {
			t.Errorf("values %v, want %v", values, want)
		}
		if h.announced[0].ctx != nil {
			t.Error("the ended lease keeps its acquire's context")
		}
	})
}

// Without an observer nothing is allocated, no clock is read, and no lock is taken:
// the lease is locked meanwhile.
func TestNoObserver(t *testing.T) {
	readings := 0
	e, coll := connected(t)
	r := newRig(t, e, coll)
	h := r.take(1, "write")
	e.Clock = func() engine.Reading { readings++; return engine.Reading{} }
	v, ctx, leases := &verdict{}, t.Context(), []*Lease{h}
	h.mu.Lock()
	n := testing.AllocsPerRun(100, func() {
		h.Announce(ctx, doclock.Event{Owner: "ann"})
		h.succeed(ctx, h)
		h.emitUnknown(ctx, nil, doclock.ErrOutcomeUnknown)
		h.emitUnknown(ctx, v, doclock.ErrOutcomeUnknown)
		h.emitEnds(ctx, "", nil)
		h.emitRenewal(engine.Renewed, nil)
		if counted(ctx, leases) != ctx {
			t.Error("commands are counted")
		}
		h.emitVerdict(ctx, v, "", doclock.ErrOutcomeUnknown) // these are called while it is locked
		h.emitLost()
	})
	h.mu.Unlock()
	if n > 0 || readings > 0 {
		t.Errorf("%v allocations, %d readings of the clock", n, readings)
	}
	e.Clock = nil
	h.giveUp()
}
