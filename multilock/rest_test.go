package multilock

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// waiting is a queue with one waiter, that no goroutine waits for.
type waiting struct {
	*waiter
	q *queue
}

func newWaiting(t *testing.T, rules relations.Rules, tag string) waiting {
	t.Helper()
	e, err := engine.New(mongotest.Database(t).Collection("categories"), rules, engine.Config{TTL: time.Hour, Field: engine.DefaultField})
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{engine: e, leases: &lease.Holds{}, lines: map[string]*line{}}
	return waiting{q.join(newAcquisition(e, tag), keyOfOne, nil, nil), q}
}

// The document whose _id is 1.
var (
	pinOfOne = engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}}}
	keyOfOne = key(pinOfOne)
)

// newAcquisition is one that began long ago: pauses are long.
func newAcquisition(e *engine.Engine, tag string) *acquisition {
	return &acquisition{
		locker: &Locker{engine: e}, document: keyOfOne, filter: engine.Filter{Exact: true},
		request: engine.Request{Tag: tag, ID: uuid.New()}, begun: time.Now().Add(-time.Hour),
	}
}

// image is of document 1.
func image(number int64, now time.Time, entries ...engine.Entry) *engine.Image {
	kind, value, _ := bson.MarshalValue(1)
	return &engine.Image{ID: bson.RawValue{Type: kind, Value: value}, Now: now, Lock: engine.Lock{Fence: number, Entries: entries}}
}

func heldBy(tag string, token int64, expires time.Time) engine.Entry {
	return engine.Entry{Tag: tag, ID: uuid.New(), Seq: token, Fence: token, Expires: expires}
}

// Who was refused doesn't ask again without a pause, whatever the picture says;
// and at once when something has made way since.
func TestWhoWasRefusedRests(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	for name, answer := range map[string]*engine.Image{
		"no image":                           nil,
		"an image without a clock":           image(7, time.Time{}, heldBy("write", 7, now.Add(time.Hour))),
		"an image with nobody in the way":    image(7, now),
		"an image with whoever is long dead": image(7, now, heldBy("write", 7, now.Add(-time.Hour))),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaiting(t, relations.Exclusive(), "write")
			for i := range 3 {
				if may, _, _ := w.q.turn(w.waiter); !may {
					t.Fatalf("it may not ask, time %d", i)
				}
				w.line.picture.changed = time.Time{} // nothing has, for long
				w.q.settle(w.waiter, answer, nil)
				if may, _, pause := w.q.turn(w.waiter); may || pause <= 0 {
					t.Fatalf("refused, it may ask again: %v, after %v", may, pause)
				}
				w.q.poll(w.waiter)
				if may, _, _ := w.q.turn(w.waiter); may {
					t.Fatal("refused, it asks when it is woken")
				}
				w.q.Released(engine.Grant{Pin: pinOfOne, ID: uuid.New()})
			}
		})
	}
}

// One that is told that the lock is free by a picture that the server doesn't
// agree with rests too, where it is not the one who polls.
func TestWhoeverWasRefusedRests(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	w := newWaiting(t, relations.ReadPreferring(), "write")
	w.q.settle(w.waiter, image(7, now, heldBy("read", 7, now.Add(time.Hour))), nil)
	reader := w.q.join(newAcquisition(w.q.engine, "read"), keyOfOne, nil, nil)
	for range 2 {
		if reader.state != asking {
			t.Fatal("it may not ask")
		}
		w.line.picture.changed = time.Time{}
		w.q.settle(reader, nil, nil)
		if reader.state != asleep {
			t.Fatal("refused, it asks again")
		}
		if _, _, pause := w.q.turn(w.waiter); pause <= 0 || pause > 2*longestPause {
			t.Errorf("the one who polls sleeps for %v", pause)
		}
		w.q.removed(keyOfOne, uuid.New())
	}
}

// What makes way while a waiter asks may have done so after it was refused.
func TestNewsOnTheWay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	w := newWaiting(t, relations.Exclusive(), "write")
	holder := heldBy("write", 7, now.Add(time.Hour))
	w.q.Released(engine.Grant{Pin: pinOfOne, ID: holder.ID})
	w.q.settle(w.waiter, image(7, now, holder), nil)
	if w.state != asking {
		t.Error("it rests, though the holder has left meanwhile")
	}
}

// An entry that a waiter had in the document is removed: those whom it kept back
// are told when that is done.
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
	_, refused := a.arrive(t.Context())
	reader := here.queue.join(a, keyOfOne, nil, a.seen)
	defer here.queue.leave(reader)
	if may, _, _ := here.queue.turn(reader); may || refused == nil {
		t.Fatal("the writer doesn't keep it back")
	}
	if err := writer.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if may, _, _ := here.queue.turn(reader); !may {
		t.Error("nobody has told it")
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
