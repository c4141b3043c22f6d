package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var increment = bson.D{{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}}

// delay has commands of this name answered late.
func (r *rig) delay(name string, d time.Duration) {
	r.server.lose = func(c call) error {
		if c.name == name {
			time.Sleep(d)
		}
		return nil
	}
}

func (r *rig) wantErr(what string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s: %v, want %v", what, err, want)
	}
}

// A server has found no entry, and can't prove it. Nothing was executed, and the lease
// goes on; but after a release nobody knows whether others were let in.
func TestRule27UnprovenIsNoLoss(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		do   func(h *Lease) error
		want error // or nil: the server's error alone
	}{
		"Update":           {func(h *Lease) error { return h.Update(ctx, increment) }, nil},
		"Detach":           {func(h *Lease) error { _, err := h.Detach(ctx); return err }, doclock.ErrOutcomeUnknown},
		"Release":          {func(h *Lease) error { return h.Release(ctx) }, doclock.ErrOutcomeUnknown},
		"Delete":           {func(h *Lease) error { return h.Delete(ctx) }, doclock.ErrOutcomeUnknown},
		"UpdateAndRelease": {func(h *Lease) error { return h.UpdateAndRelease(ctx, increment) }, doclock.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.New(r.grantBy(1, "write", engine.Terms{TTL: time.Hour}), r.engine.Clocks())
				unproven := &engine.Failure{Nothing: true, Passes: true, Unproven: true}
				r.server.fault = func(context.Context, call) error { return unproven }
				err := c.do(h)
				if !errors.Is(err, unproven) || errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) != (c.want != nil) {
					r.Errorf("%v, want %v", err, c.want)
				}
				r.server.fault = nil
				r.wantErr("Release", h.Release(ctx), nil)
			})
		})
	}
}

// Under a tag that tolerates other holders nothing is sent, and the lease stands, also
// if nobody else holds the document.
func TestDeleteUnderATagThatToleratesOthers(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "read")
		r.wantErr("Delete", h.Delete(context.Background()), doclock.ErrInvalidArgument)
		r.wantErr("its Err", h.Err(), nil)
		r.wantSent()
		r.wantErr("Delete of a writer", r.take(2, "write").Delete(context.Background()), nil)
		r.wantSent("delete")
	})
	cooperative, assertive := relations.Relation{Kind: relations.Cooperative}, relations.Relation{Kind: relations.Assertive}
	for name, c := range map[string]struct {
		rules     relations.Rules
		tag, want string
	}{
		"exclusive":              {relations.Exclusive(), "write", ""},
		"waits for both":         {relations.Fair(), "write", ""},
		"of two kinds":           {relations.WritePreferring(), "write", ""},
		"ignores itself":         {relations.WritePreferring(), "read", "read"},
		"one slot":               {relations.Semaphore(1), "slot", ""},
		"two slots":              {relations.Semaphore(2), "slot", "slot"},
		"the strongest of five":  {relations.MultiGranularity(), "X", ""},
		"the next of five":       {relations.MultiGranularity(), "SIX", "IS"},
		"is ignored by another":  {relations.Rules{"a": {"a": cooperative, "b": assertive}, "b": {"b": cooperative}}, "a", "b"},
		"ignores another":        {relations.Rules{"a": {"a": cooperative}, "b": {"a": assertive, "b": cooperative}}, "a", "b"},
		"tolerates one other":    {relations.Rules{"a": {"a": cooperative, "b": {Kind: relations.Assertive, Allow: 1}}, "b": {"a": assertive}}, "a", "b"},
		"is tolerated, if alone": {relations.Rules{"a": {"a": cooperative, "b": assertive}, "b": {"a": {Kind: relations.Assertive, Allow: 1}}}, "a", "b"},
	} {
		if got := notExcluded(c.rules, c.tag); got != c.want {
			t.Errorf("%s: %q may be held beside %q, want %q", name, got, c.tag, c.want)
		}
	}
}

// The server refuses the release: the entry stands, and a later call tries
// again. Once it has succeeded nothing is sent any more, and the attempts of the
// acquire are left to the clean-up.
func TestARefusedReleaseIsTriedAgain(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.doubted(2, "write")
		refused := &engine.Failure{Nothing: true}
		r.server.fault = func(context.Context, call) error { return refused }
		r.wantErr("refused", l.Release(context.Background()), refused)
		r.server.fault = nil
		r.wantUnanswered()
		r.wantErr("again", l.Release(context.Background()), nil)
		r.wantErr("once more", l.Release(context.Background()), nil)
		r.wantSent("release", "release")
		r.wantUnanswered(l.ID())
	})
}

// An acquire by the context of a function that has returned waits for the release, and is not
// refused as one that would wait for itself.
func TestAFunctionThatReturnedHoldsNothing(t *testing.T) {
	virtual(t, func(r *rig) {
		ends := map[string]func(*Lease) context.CancelCauseFunc{
			"one":     func(l *Lease) context.CancelCauseFunc { _, end := l.Work(context.Background()); return end },
			"several": func(l *Lease) context.CancelCauseFunc { _, end := Work(context.Background(), []*Lease{l}); return end },
		}
		for name, begin := range ends {
			l := r.take(1, "write")
			end := begin(l)
			if _, standing := l.Standing(); !standing {
				r.Errorf("%s: the function runs, and its lease doesn't stand", name)
			}
			end(nil)
			if _, standing := l.Standing(); standing {
				r.Errorf("%s: the function has returned, and its lease stands", name)
			}
			r.wantErr("Release", l.Release(context.Background()), nil)
		}
	})
}
