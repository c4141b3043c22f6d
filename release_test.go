package doclock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestReleaseRemovesTheEntry(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries := r.stored().Lock.Tags["write"]; len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
	if err := lease.Err(); !errors.Is(err, doclock.ErrReleased) {
		t.Errorf("Err = %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("released again: %v", err)
	}
	if n := r.sent.count(); n != 1 {
		t.Errorf("sent %v", r.sent.all())
	}
	for name, err := range map[string]error{
		"Renew":            lease.Renew(t.Context()),
		"Update":           lease.Update(t.Context(), bson.M{"$set": bson.M{"a": 1}}),
		"UpdateAndRelease": lease.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"a": 1}}),
	} {
		if !errors.Is(err, doclock.ErrReleased) {
			t.Errorf("%s after the release: %v", name, err)
		}
	}
	if n := r.sent.count(); n != 1 {
		t.Errorf("sent %v", r.sent.all())
	}
}

// The server's verdict wins over the local one: nobody was let in.
func TestReleaseAfterTheLocalEnd(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	r.clock.pass(ttl)
	if err := lease.Err(); !errors.Is(err, doclock.ErrLost) {
		t.Fatalf("Err = %v", err)
	}
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"count": 1}}); err != nil {
		t.Errorf("Update = %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	if got := r.stored().Count; got != 1 {
		t.Errorf("count = %d", got)
	}
}

func TestReleaseFindsTheLoss(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	other := r.takeOver()
	for range 2 {
		if err := lease.Release(t.Context()); !errors.Is(err, doclock.ErrLost) {
			t.Errorf("Release = %v", err)
		}
	}
	if entries := r.stored().Lock.Tags["write"]; len(entries) != 1 || entries[0].Fence != other.Fence() {
		t.Errorf("the new holder's entry: %v", entries)
	}
	if n := r.sent.count(); n != 1 {
		t.Errorf("sent %v", r.sent.all())
	}
}

func TestReleaseOfADeletedDocument(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	if _, err := r.other.DeleteOne(t.Context(), bson.M{"_id": 1}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("Release = %v", err)
	}
}

func TestReleaseWhoseReplyIsLost(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		r.net.Arm(faultnet.LoseReply, "findAndModify")
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		if n := r.sent.count(); n != 2 {
			t.Errorf("sent %v", r.sent.all())
		}
	})
}

// The same, but the repeat is answered when the lease could have been taken
// over: whether the first attempt removed the entry is unknown.
func TestReleaseWhoseReplyIsLostUntilTheEnd(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		r.net.Arm(faultnet.LoseReply, "findAndModify")
		second := r.net.Arm(faultnet.DelayReply, "findAndModify")
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		<-second.Fired()
		r.clock.pass(ttl)
		if err := second.Let(); err != nil {
			t.Fatal(err)
		}
		if err := <-released; !errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("Release = %v", err)
		}
	})
}

// A caller who gives up gets its answer at once; the release goes on.
func TestReleaseOutlivesItsCaller(t *testing.T) {
	t.Run("ended before", func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := lease.Release(ctx)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("Release = %v", err)
		}
		<-reply.Fired()
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("waited for the answer: %v", err)
		}
		if entries := r.stored().Lock.Tags["write"]; len(entries) != 0 {
			t.Errorf("left %v", entries)
		}
	})
	t.Run("ended during", func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-reply.Fired()
			cancel()
		}()
		err := lease.Release(ctx)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("Release = %v", err)
		}
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("waited for the answer: %v", err)
		}
		if n := r.sent.count(); n != 1 {
			t.Errorf("sent %v", r.sent.all())
		}
	})
}

// The server refuses the release itself: the entry stands, and a later call
// may try again.
func TestReleaseRefused(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	r.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "errmsg": "not authorized"}
	})
	var refused mongo.CommandError
	if err := lease.Release(t.Context()); !errors.As(err, &refused) || refused.Code != 13 {
		t.Errorf("Release = %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("released again: %v", err)
	}
	if entries := r.stored().Lock.Tags["write"]; len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

func TestReleaseWaitsForTheRenewal(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
	renewed, released := make(chan error, 1), make(chan error, 1)
	go func() { renewed <- lease.Renew(context.Background()) }()
	<-reply.Fired()
	go func() { released <- lease.Release(context.Background()) }()
	fixture.Eventually(t, "the release is claimed", func() bool { return lease.Guard()[0].Value == nil || len(lease.Guard()) <= 1 })
	if n := r.sent.count(); n != 1 {
		t.Errorf("sent %v while the renewal was under way", r.sent.all())
	}
	if err := reply.Let(); err != nil {
		t.Fatal(err)
	}
	if err := <-renewed; err != nil {
		t.Errorf("Renew = %v", err)
	}
	if err := <-released; err != nil {
		t.Errorf("Release = %v", err)
	}
}
