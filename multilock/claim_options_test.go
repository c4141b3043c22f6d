package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A document is free for a tag if an arrival would be granted: beside other holders, and not behind a waiting entry.
func TestAClaimFindsWhatIsFreeForItsTag(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules  relations.Rules
		held   []string
		tag    string
		shared bool
		free   bool
	}{
		"a semaphore with room":    {relations.Semaphore(2), []string{relations.Semaphore(2).Tags()[0]}, relations.Semaphore(2).Tags()[0], false, true},
		"a reader beside a reader": {relations.Fair(), []string{"read"}, "read", false, true},
		"a shared tag":             {relations.ReadPreferring(), []string{"read"}, "read", true, true},
		"a writer behind a reader": {relations.Fair(), []string{"read"}, "write", false, false},
		"a reader behind a writer": {relations.Fair(), []string{"write"}, "read", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newJobs(t, 2)
			var opts []doclock.Option
			if c.shared {
				opts = append(opts, doclock.ShareInProcess(c.tag))
			}
			l, other := p.locker(p.coll, c.rules, opts...), p.locker(p.coll, c.rules)
			for _, tag := range c.held {
				if _, err := other.TryAcquire(p.bounded(), bson.M{"_id": 102}, tag); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // by an ask, and by a look-up
				lease, err := l.TryAcquire(p.bounded(), pendingJobs, c.tag, doclock.SkipLocked(), byPriority)
				if err != nil {
					t.Fatal(err)
				}
				if got := lease.DocumentID().AsInt64() == 102; got != c.free {
					t.Errorf("claimed %v", lease.DocumentID())
				}
				p.release(lease)
			}
		})
	}
}

// The terms of a claim are those of its entry, by the filter itself and by a candidate's _id. A remainder is skipped.
func TestAClaimHasItsTerms(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 3)
	l := p.locker(p.coll, relations.Exclusive())
	for _, want := range []int64{103, 102, 101} { // by an ask, and by two tries
		lease := p.claim(l, doclock.HoldAtLeast(time.Hour), doclock.LeaseTTL(time.Minute), doclock.OwnedBy("a worker"))
		if got := lease.DocumentID().AsInt64(); got != want {
			t.Errorf("claimed %d, want %d", got, want)
		}
		if left := lease.Remaining(); left > time.Minute || left < 15*time.Second { // and not the Locker's 10 s
			t.Errorf("%d is valid for %v", want, left)
		}
		n, err := p.coll.CountDocuments(t.Context(), bson.M{"_id": want, "lock.tags.write.owner": "a worker", "lock.tags.write.until": bson.M{"$exists": true}})
		if n != 1 || err != nil {
			t.Errorf("%d is stored otherwise (%v)", want, err)
		}
		p.release(lease)
	}
	_, err := l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
	p.want(err, doclock.ErrNotFound)
}

func TestSortAndSkipLockedAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l, upserting := p.locker(coll, relations.Exclusive()), p.locker(coll, relations.Exclusive(), doclock.Upsert())
	for name, keys := range map[string]any{
		"nil": nil, "none": bson.D{}, "several in a map": bson.M{"a": 1, "b": 1}, "an operator": bson.D{{Key: "$a", Value: 1}}, "empty": bson.D{{Key: "", Value: 1}},
		"twice": bson.D{{Key: "a", Value: 1}, {Key: "a", Value: -1}}, "a direction": bson.D{{Key: "a", Value: 2}}, "a text": bson.D{{Key: "a", Value: "up"}},
		"malformed": bson.Raw{1, 2}, "no document": 7,
	} {
		_, err := l.TryAcquire(p.bounded(), byName, "write", doclock.Sort(keys))
		fault{doclock.ErrInvalidArgument, []string{"Sort"}}.check(t, name, err)
	}
	_, err := l.Enqueue(p.bounded(), byName, "write", doclock.SkipLocked())
	fault{doclock.ErrInvalidArgument, []string{"SkipLocked"}}.check(t, "Enqueue", err)
	_, err = upserting.TryAcquire(p.bounded(), flowers, "write", doclock.SkipLocked())
	fault{doclock.ErrInvalidArgument, []string{"SkipLocked"}}.check(t, "Upsert", err)
	if sent := w.commands(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}
}

// Without SkipLocked, an acquire means the first document by the keys, and waits for that one.
func TestSortWithoutSkipLocked(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 2)
	l := p.locker(p.coll, relations.Exclusive())
	first, err := l.TryAcquire(p.bounded(), pendingJobs, "write", byPriority)
	if err != nil || first.DocumentID().AsInt64() != 102 {
		t.Fatalf("%v, %v", first.DocumentID(), err)
	}
	_, err = l.TryAcquire(p.bounded(), pendingJobs, "write", byPriority)
	p.want(err, doclock.ErrConflict)
	lease, err := l.TryAcquire(p.bounded(), bson.M{"_id": 101}, "write", byPriority, doclock.SkipLocked())
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.TryAcquire(p.bounded(), bson.M{"_id": 101}, "write", doclock.SkipLocked())
	p.want(err, doclock.ErrNotFound, doclock.ErrConflict)
	p.release(lease)
}
