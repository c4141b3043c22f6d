package waitqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Two waiters of one document: the first asks the server, and is granted the
// lock. Its release is a handoff to the second, that so asks nobody.
func Example() {
	begun := time.Now()
	queues := waitqueue.New(waitqueue.Config{
		Rules:   relations.Exclusive(),
		Now:     func() time.Duration { return time.Since(begun) + 1 },
		Closing: make(chan struct{}),
		Closed:  errors.New("closed"),
		Holds:   func(uuid.UUID) bool { return false },
	})
	pin := engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}}}
	document, ctx := waitqueue.Key(pin), context.Background()
	ask := func() waitqueue.Request {
		return waitqueue.Request{Request: engine.Request{Tag: "write", ID: uuid.New()}, Exact: true, Begun: queues.Now()}
	}
	granted := func(r waitqueue.Request, fence int64) *engine.Image {
		own := engine.Entry{Tag: r.Tag, ID: r.ID, Seq: fence, Fence: fence, Expires: time.Now().Add(time.Minute)}
		return &engine.Image{Now: time.Now(), Lock: engine.Lock{Fence: fence, Entries: []engine.Entry{own}}}
	}

	first, second := ask(), ask()
	w := queues.Enter(document, first, waitqueue.Known{})
	next := queues.Enter(document, second, waitqueue.Known{})
	handed, _ := queues.Await(ctx, w)
	fmt.Println("the first asks:", handed == nil)
	queues.Report(w, waitqueue.Result{ID: first.ID, Held: true, Image: granted(first, 1), Document: document})
	queues.Leave(w)

	successor := queues.Next(engine.Grant{Pin: pin, Entry: engine.Entry{Tag: "write", ID: first.ID}})
	fmt.Println("the second is handed the lock:", successor.ID == second.ID)
	queues.HandedOver(first.ID, engine.Answer{Outcome: engine.Granted, Image: granted(second, 2)})
	handed, _ = queues.Await(ctx, next)
	fmt.Println("the second has the answer:", handed != nil)
	queues.Report(next, waitqueue.Result{ID: second.ID, Held: true, Image: handed.Image, Document: document})
	queues.Leave(next)
	// Output:
	// the first asks: true
	// the second is handed the lock: true
	// the second has the answer: true
}
