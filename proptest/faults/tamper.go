package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	lossNoticed      = "a lease that an outside writer destroyed is reported lost, and its writes are refused"
	garbageUntouched = "a lock field that is not ours stays the same byte for byte"
)

// tampering is an outside writer's change of a locked document.
type tampering struct {
	name    string
	do      func(context.Context, *scene) error
	garbage bool // the lock field is not a lock any more
	missing bool // the document too
}

func update(u bson.M) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		_, err := s.other.UpdateOne(ctx, s.filter(), u)
		return err
	}
}

func scribble(v any) func(context.Context, *scene) error {
	return update(bson.M{"$set": bson.M{"lock": v}})
}

var tamperings = []tampering{
	{name: "document replaced", do: func(ctx context.Context, s *scene) error {
		_, err := s.other.ReplaceOne(ctx, s.filter(), bson.M{"count": 0})
		return err
	}},
	{name: "document deleted", missing: true, do: func(ctx context.Context, s *scene) error {
		_, err := s.other.DeleteOne(ctx, s.filter())
		return err
	}},
	{name: "document deleted and inserted again", do: func(ctx context.Context, s *scene) error {
		_, err := s.other.DeleteOne(ctx, s.filter())
		if err == nil {
			_, err = s.other.InsertOne(ctx, bson.M{"_id": s.id, "count": 0})
		}
		return err
	}},
	{name: "lock field erased", do: update(bson.M{"$unset": bson.M{"lock": ""}})},
	{name: "lock field set to null", do: scribble(nil)},
	{name: "garbage in the lock field", garbage: true, do: scribble("locked by hand")},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.A{1, 2})},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.M{"tags": bson.M{"write": "mine"}})},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.M{"tags": bson.M{"write": bson.A{"mine"}}})},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.M{"fence": "high"})},
	{name: "garbage in the lock field", do: scribble(bson.M{"tags": bson.M{"write": bson.A{bson.M{"id": 7}}}})},
}

// Tamper changes a locked document in every way that an outside writer can, n
// times, and tests every operation of the holder and of a newcomer after that.
func Tamper(ctx context.Context, db *mongo.Database, uri string, n int, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	for range n {
		for _, v := range tamperings {
			if err := tamper(ctx, st, v, t); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return nil
}

func tamper(ctx context.Context, st *stage, v tampering, t *tally.Tally) error {
	for name, operation := range map[string]func(*doclock.Lease) error{
		"Renew":            func(l *doclock.Lease) error { return l.Renew(ctx) },
		"Update":           func(l *doclock.Lease) error { return l.Update(ctx, increment) },
		"UpdateAndRelease": func(l *doclock.Lease) error { return l.UpdateAndRelease(ctx, increment) },
		"Release":          func(l *doclock.Lease) error { return l.Release(ctx) },
	} {
		s, err := st.scene(ctx)
		if err != nil {
			return err
		}
		lease, err := s.locks.TryAcquire(ctx, s.filter(), "write")
		if err != nil {
			return err
		}
		if err := v.do(ctx, s); err != nil {
			return err
		}
		t.Fired(v.name, 1)
		before, _ := s.other.FindOne(ctx, s.filter()).Raw()

		t.Checked(lossNoticed, 1)
		if err := operation(lease); !errors.Is(err, doclock.ErrLost) {
			t.Violated(lossNoticed, "%s, then %s: %v", v.name, name, err)
		}
		if err := lease.Err(); err == nil {
			t.Violated(lossNoticed, "%s, then %s: the lease is still valid", v.name, name)
		}
		after, _ := s.other.FindOne(ctx, s.filter()).Raw()
		if string(after) != string(before) {
			t.Violated(lossNoticed, "%s, then %s: %v became %v", v.name, name, before, after)
		}
		if err := s.newcomer(ctx, v, t); err != nil {
			return err
		}
		if err := s.locks.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newcomer acquires the rest of the document.
func (s *scene) newcomer(ctx context.Context, v tampering, t *tally.Tally) error {
	before, _ := s.other.FindOne(ctx, s.filter()).Raw()
	lease, err := s.locks.TryAcquire(ctx, s.filter(), "write")
	switch {
	case v.missing:
		if !errors.Is(err, doclock.ErrNotFound) {
			t.Violated(lossNoticed, "%s: a newcomer gets %v", v.name, err)
		}
	case v.garbage:
		t.Checked(garbageUntouched, 1)
		after, _ := s.other.FindOne(ctx, s.filter()).Raw()
		if !errors.Is(err, doclock.ErrForeignLock) || string(after) != string(before) {
			t.Violated(garbageUntouched, "%v: a newcomer gets %v, and %v is left", before, err, after)
		}
	case err != nil:
		return fmt.Errorf("a newcomer: %w", err)
	default:
		return lease.Release(ctx)
	}
	return nil
}
