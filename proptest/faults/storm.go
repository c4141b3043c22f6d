package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	stormed = "callers with tiny deadlines gave up"
	bounded = "callers that give up leave few entries at a time, and none in the end"
	keepsIt = "a holder keeps its lease through a storm of callers that give up"
)

// The size of a storm, and the most entries that it may show: the holder's,
// those of the acquires that are under way for one document, and as many that
// are being removed.
const (
	stormers    = 100
	tiniest     = time.Millisecond
	tiny        = 20 * time.Millisecond
	mostStormed = 1 + 2*8
)

// stormCalls are the calls that callers give up.
var stormCalls = map[string]func(ctx context.Context, locks *multilock.Locker, filter any, tag string) (*doclock.Lease, error){
	"Acquire": func(ctx context.Context, locks *multilock.Locker, filter any, tag string) (*doclock.Lease, error) {
		return locks.Acquire(ctx, filter, tag)
	},
	"TryAcquire": func(ctx context.Context, locks *multilock.Locker, filter any, tag string) (*doclock.Lease, error) {
		return locks.TryAcquire(ctx, filter, tag)
	},
	"Enqueue": func(ctx context.Context, locks *multilock.Locker, filter any, tag string) (*doclock.Lease, error) {
		ticket, err := locks.Enqueue(ctx, filter, tag)
		if err != nil {
			return nil, err
		}
		return nil, ticket.Cancel(ctx)
	},
}

// Storm has many callers with tiny deadlines acquire a document that another
// client holds: with each call for a time, by the _id and by another field,
// under rules with a queue.
func Storm(ctx context.Context, db *mongo.Database, uri string, each time.Duration, t *tally.Tally) error {
	for _, table := range []struct {
		rules relations.Rules
		tag   string
	}{{relations.Semaphore(1), "slot"}, {relations.Fair(), "write"}} {
		for name, call := range stormCalls {
			for _, byName := range []bool{false, true} {
				if err := storm(ctx, db, uri, table.rules, table.tag, byName, call, each, t); err != nil {
					return fmt.Errorf("storm of %s of %s: %w", name, table.tag, err)
				}
			}
		}
	}
	return nil
}

func storm(ctx context.Context, db *mongo.Database, uri string, rules relations.Rules, tag string, byName bool,
	call func(context.Context, *multilock.Locker, any, string) (*doclock.Lease, error), each time.Duration, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	id := uuid.NewString()
	if _, err := st.other.InsertOne(ctx, bson.M{"_id": id, "name": id}); err != nil {
		return err
	}
	holders, err := multilock.New(st.other, rules, doclock.TTL(5*time.Second))
	if err != nil {
		return err
	}
	defer holders.Close(context.WithoutCancel(ctx))
	held, err := holders.TryAcquire(ctx, bson.M{"_id": id}, tag)
	if err != nil {
		return err
	}
	kept := held.KeepAlive(ctx)
	locks, err := multilock.New(st.doc, rules, doclock.Owner("swept"))
	if err != nil {
		return err
	}
	filter := bson.M{"_id": id}
	if byName {
		filter = bson.M{"name": id}
	}

	blowing, calm := context.WithTimeout(ctx, each)
	defer calm()
	var callers sync.WaitGroup
	var gaveUp atomic.Int64
	for range stormers {
		callers.Go(func() {
			for blowing.Err() == nil {
				short, stop := context.WithTimeout(blowing, tiniest+rand.N(tiny))
				if lease, err := call(short, locks, filter, tag); lease != nil {
					_ = lease.Release(ctx)
				} else if errors.Is(err, context.DeadlineExceeded) {
					gaveUp.Add(1)
				}
				stop()
			}
		})
	}
	s := &scene{stage: st, id: id, locks: locks}
	for blowing.Err() == nil {
		doc, err := s.stored(ctx)
		if err != nil {
			return err
		}
		t.Checked(bounded, 1)
		if n := len(doc.Lock.Tags[tag]); n > mostStormed {
			t.Violated(bounded, "%d entries", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	callers.Wait()
	t.Fired(stormed, int(gaveUp.Load()))

	patience, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := locks.Close(patience); err != nil {
		return fmt.Errorf("close the locker: %w", err)
	}
	doc, err := s.stored(patience)
	if err != nil {
		return err
	}
	t.Checked(bounded, 1)
	if left := doc.entries("swept"); len(left) > 0 {
		t.Violated(bounded, "left %v", left)
	}
	t.Checked(keepsIt, 1)
	if err := context.Cause(kept); err != nil {
		t.Violated(keepsIt, "%v", err)
	}
	return held.Release(patience)
}
