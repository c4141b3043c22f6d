package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var increment = bson.D{{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}}

// share takes the read lock of document 1 for n holders.
func (r *rig) share(n int) []*Handle {
	r.Helper()
	all := []*Handle{r.doubted(1, "read")}
	for len(all) < n {
		h := r.Join(all[0].ID())
		if h == nil {
			r.Fatal("the hold can't be joined")
		}
		all = append(all, h)
	}
	return all
}

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

// The validity ends a TTL after the send, for the hold and all its parts, with
// nobody asking.
func TestAHoldEndsForAllItsHolders(t *testing.T) {
	virtual(t, func(r *rig) {
		begun := time.Now()
		holders := r.share(3)
		time.Sleep(ttl / 10)
		for _, h := range holders {
			if left := h.Remaining(); left > ttl-ttl/10 {
				r.Errorf("%v remain", left)
			}
		}
		for _, h := range holders {
			<-h.Done()
			r.wantErr("Err", h.Err(), doclock.ErrLost)
		}
		if passed := time.Since(begun); passed != ttl-resolution {
			r.Errorf("it ended after %v", passed)
		}
		if r.Valid(holders[0].ID()) || r.Join(holders[0].ID()) != nil {
			r.Error("it is valid after the end")
		}
		if r.Join(r.take(2, "write").ID()) != nil {
			r.Error("an exclusive hold is joined")
		}
	})
}

func TestAnOldHoldIsJoinedByALookOnly(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.share(1)[0]
		time.Sleep(ttl/3 + aLittle)
		if r.Join(h.ID()) != nil {
			r.Error("joined")
		}
		other, img, err := r.Look(context.Background(), h.ID(), false)
		if err != nil || img == nil || other.Remaining() < ttl-aLittle {
			r.Fatal(other, img, err)
		}
		r.wantSent("look")
		if r.Join(h.ID()) == nil { // it is young again
			r.Error("not joined")
		}
	})
}

// One among several sends nothing, and waits for none of the others' commands.
// The last releases.
func TestTheLastHolderReleases(t *testing.T) {
	virtual(t, func(r *rig) {
		holders := r.share(3)
		r.delay("write", time.Second)
		written := make(chan error, 1)
		go func() { written <- holders[0].Update(context.Background(), increment) }()
		time.Sleep(aLittle)
		begun := time.Now()
		r.wantErr("Release of one", holders[1].Release(context.Background()), nil)
		if waited := time.Since(begun); waited != 0 {
			r.Errorf("it waited for %v", waited)
		}
		r.wantErr("Err of one", holders[1].Err(), doclock.ErrReleased)
		r.wantErr("Err of another", holders[2].Err(), nil)
		r.wantErr("Update", <-written, nil)
		r.wantSent("write")
		r.wantErr("Release of another", holders[0].Release(context.Background()), nil)
		r.wantSent("write")
		r.wantErr("the last Release", holders[2].Release(context.Background()), nil)
		r.wantSent("write", "release")
		r.wantErr("Release again", holders[2].Release(context.Background()), nil)
		r.wantSent("write", "release")
	})
}

// Writes are numbered over all holders, and one is out at a time.
func TestWritesOfAllHoldersAreInOneOrder(t *testing.T) {
	virtual(t, func(r *rig) {
		holders := r.share(3)
		entry := r.server.entries[holders[0].ID()]
		r.delay("write", time.Second)
		begun := time.Now()
		var group sync.WaitGroup
		for _, h := range holders {
			group.Go(func() { r.wantErr("Update", h.Update(context.Background(), increment), nil) })
		}
		group.Wait()
		if passed := time.Since(begun); passed < 3*time.Second {
			r.Errorf("three writes of a second took %v", passed)
		}
		if entry.writes != 3 {
			r.Errorf("the last write has the number %d", entry.writes)
		}
	})
}

func TestUpdateAndReleaseOfHolders(t *testing.T) {
	virtual(t, func(r *rig) {
		holders := r.share(2)
		r.wantErr("of one among two", holders[0].UpdateAndRelease(context.Background(), increment), nil)
		r.wantErr("its Err", holders[0].Err(), doclock.ErrReleased)
		r.wantErr("the other's", holders[1].Err(), nil)
		r.wantErr("Delete of one who left", holders[0].Delete(context.Background()), doclock.ErrReleased)
		r.wantErr("of the only one", holders[1].UpdateAndRelease(context.Background(), increment), nil)
		r.wantSent("write", "write and release")
		for _, h := range holders {
			r.wantErr("Release", h.Release(context.Background()), nil)
		}
		r.wantSent("write", "write and release")
	})
}

// A server has found no entry, and can't prove it. Nothing was executed, and the lease
// goes on; but after a release nobody knows whether others were let in.
func TestRule27UnprovenIsNoLoss(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		do   func(h *Handle) error
		want error // or nil: the server's error alone
	}{
		"Update":           {func(h *Handle) error { return h.Update(ctx, increment) }, nil},
		"Detach":           {func(h *Handle) error { _, err := h.Detach(ctx); return err }, doclock.ErrOutcomeUnknown},
		"Release":          {func(h *Handle) error { return h.Release(ctx) }, doclock.ErrOutcomeUnknown},
		"Delete":           {func(h *Handle) error { return h.Delete(ctx) }, doclock.ErrOutcomeUnknown},
		"UpdateAndRelease": {func(h *Handle) error { return h.UpdateAndRelease(ctx, increment) }, doclock.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.New(r.grantBy(1, "write", engine.Terms{TTL: time.Hour}), r.engine.Clocks(), false)
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

// After the end of the validity the first holder to leave releases for all, and
// the others have lost the lock.
func TestTheFirstToLeaveAfterTheEndReleases(t *testing.T) {
	for name, leave := range map[string]func(*Handle) error{
		"Release":          func(h *Handle) error { return h.Release(context.Background()) },
		"UpdateAndRelease": func(h *Handle) error { return h.UpdateAndRelease(context.Background(), increment) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				holders := r.share(3)
				time.Sleep(ttl)
				r.wantErr("the first", leave(holders[0]), nil)
				r.server.forget()
				r.wantErr("the second", leave(holders[1]), doclock.ErrLost)
				r.wantErr("the last one's Update", holders[2].Update(context.Background(), increment), doclock.ErrLost)
				r.wantErr("the last", leave(holders[2]), doclock.ErrLost)
				r.wantSent()
			})
		})
	}
}

// Nobody joins a hold that is being released, for as long as that takes.
func TestAHoldThatIsBeingReleasedIsNotJoined(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.share(1)[0]
		r.delay("renew", time.Second)
		go func() { _ = h.Renew(context.Background()) }()
		synctest.Wait()
		go func() { _ = h.Release(context.Background()) }() // which waits for the renewal
		synctest.Wait()
		r.wantErr("Err", h.Err(), doclock.ErrReleased)
		if r.Join(h.ID()) != nil {
			r.Error("joined")
		}
		r.wantSent("renew")
	})
}

// The server refuses the release: the entry stands, and a later call tries
// again. Once it has succeeded nothing is sent any more, and the attempts of the
// acquire are left to the clean-up.
func TestARefusedReleaseIsTriedAgain(t *testing.T) {
	for name, holders := range map[string]int{"exclusive": 0, "shared": 1, "shared by two": 2} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.doubted(2, "write")
				if holders > 0 {
					all := r.share(holders)
					h = all[0]
					for _, other := range all[1:] {
						r.wantErr("the other", other.Release(context.Background()), nil)
					}
				}
				refused := &engine.Failure{Nothing: true}
				r.server.fault = func(context.Context, call) error { return refused }
				r.wantErr("refused", h.Release(context.Background()), refused)
				r.server.fault = nil
				r.wantUnanswered()
				r.wantErr("again", h.Release(context.Background()), nil)
				r.wantErr("once more", h.Release(context.Background()), nil)
				r.wantSent("release", "release")
				r.wantUnanswered(h.ID())
			})
		})
	}
}
