package doclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func (r *rig) wantDocument(there bool) {
	r.Helper()
	err := r.other.FindOne(r.Context(), bson.M{"_id": 1}).Err()
	if errors.Is(err, mongo.ErrNoDocuments) == there {
		r.Errorf("the document is there: %v, want %v", !there, there)
	}
}

// The document goes, the lease ends as released, and the release says so, with
// one command in all.
func TestDeleteEndsTheLease(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	fault := r.net.Arm(faultnet.DelayReply, "findAndModify")
	deleted := make(chan error, 1)
	go func() { deleted <- lease.Delete(t.Context()) }()
	within(t, fault.Fired(), "the delete")
	if err := lease.Err(); !errors.Is(err, doclock.ErrReleased) {
		t.Errorf("Err while the delete is under way: %v", err)
	}
	if err := fault.Let(); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	r.wantDocument(false)
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := lease.Delete(t.Context()); !errors.Is(err, doclock.ErrReleased) {
		t.Errorf("a second Delete: %v", err)
	}
	if n := r.sent.count(); n != 1 {
		t.Errorf("%d commands: %v", n, r.sent.all())
	}
}

// Under another's lock nothing is deleted, whatever became of the request, and
// though the lease is still valid here.
func TestDeleteFindsTheLoss(t *testing.T) {
	for name, cut := range map[string]bool{"answered": false, "the first request is lost": true} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			r := newRig(t)
			lease := r.acquire()
			_ = r.takeOver()
			want := doclock.ErrLost
			if cut {
				r.clock.pass(time.Minute) // and so nobody can say who removed the entry
				r.net.Arm(faultnet.LoseRequest, "findAndModify")
				want = doclock.ErrOutcomeUnknown
			}
			for call, err := range map[string]error{"Delete": lease.Delete(t.Context()), "Release": lease.Release(t.Context())} {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", call, err, want)
				}
			}
			r.wantDocument(true)
		})
	}
}

// An operator has broken the lock while the lease is valid here, and the first
// request is lost. The repeat finds no entry, and the document stands.
func TestDeleteAfterABreak(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		r.change(bson.M{"$unset": bson.M{"lock.tags": ""}})
		r.net.Arm(faultnet.LoseRequest, "findAndModify")
		if err := lease.Delete(t.Context()); !errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		r.wantDocument(true)
	})
}

// A document that others write to is deleted all the same: attempts that miss it are repeated.
func TestDeleteOfABusyDocument(t *testing.T) {
	r := newRig(t, realTime)
	lease := r.acquire()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && r.sent.count() < 10 {
			_, _ = r.other.UpdateOne(context.Background(), bson.M{"_id": 1}, bson.M{"$inc": bson.M{"count": 1}})
		}
	}()
	if err := lease.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	<-done
	r.wantDocument(false)
}

// A waiter for the document learns that it is gone.
func TestDeleteTellsWaiters(t *testing.T) {
	r := newRig(t, realTime)
	locks, err := multilock.New(r.doc, relations.Exclusive(), doclock.TTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	tag := relations.Exclusive().Tags()[0]
	lease, err := locks.TryAcquire(t.Context(), bson.M{"_id": 1}, tag)
	if err != nil {
		t.Fatal(err)
	}
	r.sent.forget()
	waited := make(chan error, 1)
	go func() {
		_, err := locks.Acquire(t.Context(), bson.M{"_id": 1}, tag)
		waited <- err
	}()
	fixture.Eventually(t, "the waiter has asked", func() bool { return r.sent.count() > 0 })
	if err := lease.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, doclock.ErrNotFound) {
		t.Errorf("the waiter got %v", err)
	}
}
