package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
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
			r.wantErr("Err", h.Err(), ErrLost)
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
		r.wantErr("Err of one", holders[1].Err(), ErrReleased)
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
		r.wantErr("its Err", holders[0].Err(), ErrReleased)
		r.wantErr("the other's", holders[1].Err(), nil)
		r.wantErr("Delete of one who left", holders[0].Delete(context.Background()), ErrReleased)
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
		"Detach":           {func(h *Handle) error { _, err := h.Detach(ctx); return err }, ErrOutcomeUnknown},
		"Release":          {func(h *Handle) error { return h.Release(ctx) }, ErrOutcomeUnknown},
		"Delete":           {func(h *Handle) error { return h.Delete(ctx) }, ErrOutcomeUnknown},
		"UpdateAndRelease": {func(h *Handle) error { return h.UpdateAndRelease(ctx, increment) }, ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.New(r.grantBy(1, "write", engine.Terms{TTL: time.Hour}), r.engine.Clocks(), false)
				unproven := &engine.Failure{Nothing: true, Passes: true, Unproven: true}
				r.server.fault = func(context.Context, call) error { return unproven }
				err := c.do(h)
				if !errors.Is(err, unproven) || errors.Is(err, ErrLost) || errors.Is(err, ErrOutcomeUnknown) != (c.want != nil) {
					r.Errorf("%v, want %v", err, c.want)
				}
				r.server.fault = nil
				r.wantErr("Release", h.Release(ctx), nil)
			})
		})
	}
}

func TestDeleteOfHolders(t *testing.T) {
	virtual(t, func(r *rig) {
		holders := r.share(2)
		r.wantErr("of one among two", holders[0].Delete(context.Background()), ErrInvalidArgument)
		r.wantErr("its Err", holders[0].Err(), nil)
		r.wantErr("Release", holders[1].Release(context.Background()), nil)
		r.wantSent()
		r.wantErr("of the only one", holders[0].Delete(context.Background()), nil)
		r.wantSent("delete")
	})
}
