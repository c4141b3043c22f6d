package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A handoff ends the lease before the waiter has its answer.
func TestEventsOfAHandoff(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		r.somebody()
		if err := r.announced(1, "write").Release(context.Background()); err != nil {
			t.Error(err)
		}
		r.wantEvents(e, "granted 7", "handed over 1")
		u := bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}}
		if err := r.announced(2, "write").UpdateAndRelease(context.Background(), u); err != nil {
			t.Error(err)
		}
		r.wantEvents(e, "granted 7", "handed over 1")
	})
}

// The events of a holder's commands agree with what the caller gets: an end once, an
// unknown outcome before it.
func TestEventsOfCommands(t *testing.T) {
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}
	refused := &engine.Failure{Nothing: true}
	gone := errors.New("no answer")
	impatient := func() context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), ttl/10)
		context.AfterFunc(ctx, cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		fault error // of each command
		gone  bool  // somebody else has removed the entry
		do    func(h *Lease) error
		want  []string
	}{
		"Release":                    {do: func(h *Lease) error { return h.Release(context.Background()) }, want: []string{"released 1"}},
		"Release, gone":              {gone: true, do: func(h *Lease) error { return h.Release(context.Background()) }, want: []string{"lost 1"}},
		"Update":                     {do: func(h *Lease) error { return h.Update(context.Background(), set) }},
		"Update, gone":               {gone: true, do: func(h *Lease) error { return h.Update(context.Background(), set) }, want: []string{"lost 1"}},
		"UpdateAndRelease":           {do: func(h *Lease) error { return h.UpdateAndRelease(context.Background(), set) }, want: []string{"released 1"}},
		"UpdateAndRelease, gone":     {gone: true, do: func(h *Lease) error { return h.UpdateAndRelease(context.Background(), set) }, want: []string{"lost 1"}},
		"Delete":                     {do: func(h *Lease) error { return h.Delete(context.Background()) }, want: []string{"released 1"}},
		"Delete, gone":               {gone: true, do: func(h *Lease) error { return h.Delete(context.Background()) }, want: []string{"lost 1"}},
		"Detach":                     {do: func(h *Lease) error { _, err := h.Detach(context.Background()); return err }, want: []string{"detached 1"}},
		"Detach, gone":               {gone: true, do: func(h *Lease) error { _, err := h.Detach(context.Background()); return err }, want: []string{"lost 1"}},
		"Convert":                    {do: func(h *Lease) error { _, err := h.Convert(context.Background(), "read"); return err }, want: []string{"converted 1", "granted 0"}},
		"Convert, gone":              {gone: true, do: func(h *Lease) error { _, err := h.Convert(context.Background(), "read"); return err }, want: []string{"lost 1"}},
		"Renew":                      {do: func(h *Lease) error { return h.Renew(context.Background()) }, want: []string{"renewed 1"}},
		"Renew, gone":                {gone: true, do: func(h *Lease) error { return h.Renew(context.Background()) }, want: []string{"lost 1"}},
		"Release, refused":           {fault: refused, do: func(h *Lease) error { return h.Release(context.Background()) }, want: []string{"released 1"}},
		"Detach, refused":            {fault: refused, do: func(h *Lease) error { _, err := h.Detach(context.Background()); return err }, want: []string{"detached 1"}},
		"Renew, refused":             {fault: refused, do: func(h *Lease) error { return h.Renew(context.Background()) }, want: []string{"renewal failed 1"}},
		"Release, unknown":           {fault: gone, do: func(h *Lease) error { return h.Release(context.Background()) }, want: []string{"outcome unknown", "released"}},
		"Delete, unknown":            {fault: gone, do: func(h *Lease) error { return h.Delete(context.Background()) }, want: []string{"outcome unknown", "released"}},
		"Detach, unknown":            {fault: gone, do: func(h *Lease) error { _, err := h.Detach(context.Background()); return err }, want: []string{"outcome unknown", "detached"}},
		"Convert, unknown":           {fault: gone, do: func(h *Lease) error { _, err := h.Convert(context.Background(), "read"); return err }, want: []string{"lost", "outcome unknown"}}, // the repeats last longer than the lease
		"Update, given up":           {fault: gone, do: func(h *Lease) error { return h.Update(impatient(), set) }, want: []string{"outcome unknown"}},
		"UpdateAndRelease, given up": {fault: gone, do: func(h *Lease) error { return h.UpdateAndRelease(impatient(), set) }, want: []string{"outcome unknown"}},
		"Release, given up":          {fault: gone, do: func(h *Lease) error { return h.Release(impatient()) }, want: []string{"outcome unknown"}},
		"an ended context":           {do: func(h *Lease) error { return h.Update(over(), set) }},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				e := r.observe()
				h := r.announced(1, "write")
				if c.gone {
					r.remove(h)
				}
				if c.fault != nil {
					r.fault(func(context.Context, call) error { return c.fault })
				}
				err := c.do(h)
				all := e.take()[1:]
				var kinds []string
				for _, of := range all {
					kind := cmp.Or(string(of.How), string(of.Kind))
					if c.fault != gone {
						kind += fmt.Sprint(" ", of.Commands)
					}
					kinds = append(kinds, kind)
					if of.LeaseID == h.ID() && of.Kind != doclock.EventRenewed && (of.Err != nil) != (err != nil) {
						t.Errorf("%s has error %v, and the caller %v", of.Kind, of.Err, err)
					}
				}
				if !slices.Equal(kinds, c.want) {
					t.Errorf("got %q, want %q; the caller %v", kinds, c.want, err)
				}
				ends := 0
				time.Sleep(3 * ttl) // the lease has an end by then
				for _, of := range append(all, e.take()...) {
					if of.LeaseID == h.ID() && slices.Contains([]doclock.EventKind{doclock.EventReleased, doclock.EventLost}, of.Kind) {
						ends++
					}
				}
				if ends != 1 {
					t.Errorf("the lease has %d ends", ends)
				}
				_ = h.Release(context.Background())
				for _, of := range e.take() {
					if of.LeaseID == h.ID() && of.Kind != doclock.EventOutcomeUnknown {
						t.Errorf("a later release: %s", of.Kind)
					}
				}
			})
		})
	}
}

// A caller who gives up during a command learns that its outcome is unknown, and so is
// the observer, once. A release after a conversion sends nothing, and emits nothing.
func TestEventsOfCallersWhoGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		do       func(context.Context, *Lease) error
		released error // what a later release returns
		want     []string
	}{
		"Renew":   {func(ctx context.Context, h *Lease) error { return h.Renew(ctx) }, nil, []string{"released 2"}},
		"Convert": {func(ctx context.Context, h *Lease) error { _, err := h.Convert(ctx, "read"); return err }, doclock.ErrOutcomeUnknown, nil},
		"Detach":  {func(ctx context.Context, h *Lease) error { _, err := h.Detach(ctx); return err }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				e := r.observe()
				h := r.announced(1, "write")
				r.fault(func(ctx context.Context, of call) error {
					if of.name == "release" {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				})
				ctx, cancel := context.WithTimeout(context.Background(), ttl/10)
				defer cancel()
				if err := c.do(ctx, h); !errors.Is(err, doclock.ErrOutcomeUnknown) {
					t.Fatalf("it = %v", err)
				}
				r.wantEvents(e, "granted 7", "outcome unknown 1")
				time.Sleep(ttl / 2)
				for _, of := range e.take() { // the end, or a renewal that has failed
					if of.Err == nil {
						t.Errorf("%s has error %v", of.Kind, of.Err)
					}
				}
				if err := h.Release(context.Background()); !errors.Is(err, c.released) {
					t.Errorf("Release = %v", err)
				}
				r.wantEvents(e, c.want...)
			})
		})
	}
}

func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A conversion that its caller gave up, and that is granted, ends the old lease as lost.
// The new entry is left to the clean-up, which reports failures, if its release fails.
func TestEventsOfAConversionThatNobodyWaitsFor(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		h := r.announced(1, "write")
		ctx, cancel := context.WithCancel(context.Background())
		r.fault(func(_ context.Context, c call) error {
			switch c.name {
			case "convert":
				cancel()
				time.Sleep(aLittle)
			case "release":
				return &engine.Failure{Nothing: true}
			}
			return nil
		})
		if _, err := h.Convert(ctx, "read"); !errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Fatalf("Convert = %v", err)
		}
		time.Sleep(2 * aLittle)
		all := e.take()
		var kinds []doclock.EventKind
		for _, of := range all {
			kinds = append(kinds, of.Kind)
		}
		if want := []doclock.EventKind{doclock.EventGranted, doclock.EventOutcomeUnknown, doclock.EventLost}; !slices.Equal(kinds, want) {
			t.Fatalf("got %q, want %q", kinds, want)
		}
		if len(r.unanswered) != 1 || r.unanswered[0].ID == h.ID() || r.unanswered[0].Tag != "read" {
			t.Errorf("the clean-up is of %v", r.unanswered)
		}
	})
}

// The unknown outcome of a conversion is told before the end that it makes.
func TestEventsOfAConversionThatIsRefusedAfterADoubt(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.observe()
		h := r.announced(1, "write")
		sent := 0
		r.fault(func(_ context.Context, c call) error {
			if c.name != "convert" {
				return nil
			}
			if sent++; sent == 1 {
				return errors.New("no answer")
			}
			return &engine.Failure{Nothing: true}
		})
		_, err := h.Convert(context.Background(), "read")
		r.wantErr("Convert", err, doclock.ErrOutcomeUnknown)
		all := e.take()[1:]
		if len(all) != 2 || all[0].Kind != doclock.EventOutcomeUnknown || all[1].How != doclock.HowConverted {
			t.Errorf("got %+v", all)
		}
	})
}
