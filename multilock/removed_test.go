package multilock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A waiter's entry is removed from the document. The waiters that it blocked are
// told.
func TestARemovedEntryWakesTheNext(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("categories")
	if _, err := coll.InsertOne(t.Context(), bson.M{"_id": 1}); err != nil {
		t.Fatal(err)
	}
	here, there := newLocker(t, coll), newLocker(t, coll)
	flowers := bson.M{"_id": 1}
	if _, err := there.TryAcquire(t.Context(), flowers, "read"); err != nil {
		t.Fatal(err)
	}
	writer, err := here.Enqueue(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	a, err := here.begin(t.Context(), flowers, "read", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, refused := a.arrive(t.Context())
	a.request.Begun -= time.Hour // this makes its pauses long
	reader := here.queues.Enter(a.document, a.request, waitqueue.Known{Image: a.seen, Sent: a.request.Begun})
	defer here.queues.Leave(reader)
	await := func() (waitqueue.Turn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return here.queues.Await(ctx, reader)
	}
	if _, err := await(); !errors.Is(err, context.DeadlineExceeded) || refused == nil {
		t.Fatalf("the writer doesn't keep it back: %v, %v", refused, err)
	}
	if err := writer.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if turn, err := await(); turn.Kind != waitqueue.Ask {
		t.Errorf("it was not told: %v", err)
	}
}

func newLocker(t *testing.T, coll *mongo.Collection) *Locker {
	t.Helper()
	l, err := New(coll, relations.WritePreferring(), doclock.TTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}
