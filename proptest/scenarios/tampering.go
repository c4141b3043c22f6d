package scenarios

import (
	"bytes"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	lossNoticed      = "a lease that an outside writer destroyed is reported lost, and its writes are refused"
	garbageUntouched = "a lock field that is not ours stays the same byte for byte"
)

// tampering is an outside writer's change of a locked document.
type tampering struct {
	name    string
	do      func(*scene) error
	garbage bool // the lock field is not a lock any more
	missing bool // the document too
}

func changed(update bson.M) func(*scene) error {
	return func(s *scene) error { return s.change(update) }
}

func scribble(v any) func(*scene) error { return changed(bson.M{"$set": bson.M{"lock": v}}) }

func deleted(s *scene) error {
	_, err := s.other.DeleteOne(s.Context(), s.filter())
	return err
}

var tamperings = []tampering{
	{name: "document replaced", do: func(s *scene) error {
		_, err := s.other.ReplaceOne(s.Context(), s.filter(), bson.M{"count": 0})
		return err
	}},
	{name: "document deleted", missing: true, do: deleted},
	{name: "document deleted and inserted again", do: func(s *scene) error {
		if err := deleted(s); err != nil {
			return err
		}
		_, err := s.other.InsertOne(s.Context(), bson.M{"_id": s.id, "count": 0})
		return err
	}},
	{name: "lock field erased", do: changed(bson.M{"$unset": bson.M{"lock": ""}})},
	{name: "lock field set to null", do: scribble(nil)},
	{name: "garbage in the lock field", garbage: true, do: scribble("locked by hand")},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.A{1, 2})},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.M{"tags": bson.M{"write": "mine"}})},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.M{"tags": bson.M{"write": bson.A{"mine"}}})},
	{name: "garbage in the lock field", garbage: true, do: scribble(bson.M{"fence": "high"})},
	{name: "garbage in the lock field", do: scribble(bson.M{"tags": bson.M{"write": bson.A{bson.M{"id": 7}}}})},
}

// outsideWriters change a locked document in every way that they can. Every operation
// of the holder and of a newcomer comes after that: four for each change.
func outsideWriters(t testing.TB, n int, counts *tally.Tally) {
	st := newStage(t, counts)
	for range (n + 3) / 4 {
		for _, v := range tamperings {
			for name := range calls {
				st.scene().tamper(v, name)
			}
		}
	}
}

func (s *scene) tamper(v tampering, name string) {
	lease := s.holds("write")
	s.must(v.do(s))
	s.Fired(v.name, 1)
	what, before := v.name+", then "+name, s.raw()
	err := calls[name](s.Context(), lease)
	s.check(lossNoticed, errors.Is(err, doclock.ErrLost), "%s: %v", what, err)
	s.check(lossNoticed, lease.Err() != nil, "%s: the lease is still valid", what)
	after := s.raw()
	s.check(lossNoticed, bytes.Equal(after, before), "%s: %v became %v", what, before, after)

	newcomer, err := s.locks.TryAcquire(s.Context(), s.filter(), "write")
	switch {
	case v.missing:
		s.check(lossNoticed, errors.Is(err, doclock.ErrNotFound), "%s: a newcomer gets %v", what, err)
	case v.garbage:
		left := s.raw()
		s.check(garbageUntouched, errors.Is(err, doclock.ErrForeignLock) && bytes.Equal(left, before), "%v: a newcomer gets %v, and %v is left", before, err, left)
	default:
		s.must(err)
		s.must(newcomer.Release(s.Context()))
	}
	s.close()
}
