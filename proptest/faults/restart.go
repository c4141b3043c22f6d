package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	restarted     = "server killed (-9) and restarted"
	survives      = "a lock survives the server's death, and excludes others after it"
	countsRight   = "over the server's death each guarded write is applied at most once, and always if reported applied"
	fencesGoOn    = "fences go on increasing over the server's death"
	restartsFirst = time.Minute // for the server to come back
)

// PrivateServer is a server that may be killed.
type PrivateServer interface {
	Kill()
	Restart()
}

// Restart kills the server under a holder that is writing, n times, restarts
// it, and checks the lock and the writes.
func Restart(ctx context.Context, client *mongo.Client, server PrivateServer, n int, t *tally.Tally) error {
	docs := client.Database("restart").Collection("docs")
	locks, err := multilock.New(docs, relations.WritePreferring(), doclock.TTL(restartsFirst), doclock.AttemptTimeout(5*time.Second))
	if err != nil {
		return err
	}
	id := uuid.NewString()
	if _, err := docs.InsertOne(ctx, bson.M{"_id": id, "count": 0}); err != nil {
		return err
	}
	filter := bson.M{"_id": id}
	var sure, maybe int
	var last int64
	for range n {
		lease, err := locks.Acquire(ctx, filter, "write")
		if err != nil {
			return err
		}
		t.Checked(fencesGoOn, 1)
		if lease.Fence() <= last {
			t.Violated(fencesGoOn, "%d after %d", lease.Fence(), last)
		}
		last = lease.Fence()

		back := make(chan struct{})
		go func() { // while the holder works
			defer close(back)
			server.Kill()
			server.Restart()
		}()
		t.Fired(restarted, 1)
		for writing := true; writing; {
			select {
			case <-back:
				writing = false
			default:
			}
			switch err := lease.Update(ctx, increment); { // repeated until the server is back
			case err == nil:
				sure++
			case errors.Is(err, doclock.ErrOutcomeUnknown):
				maybe++
			default:
				return fmt.Errorf("update: %w", err)
			}
		}

		t.Checked(survives, 1)
		if _, err := locks.TryAcquire(ctx, filter, "read"); !errors.Is(err, doclock.ErrConflict) {
			t.Violated(survives, "a reader beside the writer: %v", err)
		}
		if err := lease.Renew(ctx); err != nil {
			t.Violated(survives, "renew: %v", err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Violated(survives, "release: %v", err)
		}
		var doc stored
		if err := docs.FindOne(ctx, filter).Decode(&doc); err != nil {
			return err
		}
		t.Checked(countsRight, 1)
		if doc.Count < sure || doc.Count > sure+maybe {
			t.Violated(countsRight, "count %d after %d writes that were applied and %d that may be", doc.Count, sure, maybe)
		}
	}
	return locks.Close(ctx)
}
