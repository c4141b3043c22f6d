package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

var (
	pendingJobs = bson.M{"state": "pending"}
	byPriority  = doclock.Sort(bson.D{{Key: "priority", Value: -1}})
)

// newJobs are n jobs with the _ids and priorities 100+1 to 100+n, beside the place's own document.
func newJobs(t *testing.T, n int) *place {
	t.Helper()
	p := newPlace(t)
	for i := 1; i <= n; i++ {
		if _, err := p.coll.InsertOne(t.Context(), bson.M{"_id": 100 + i, "state": "pending", "priority": 100 + i}); err != nil {
			t.Fatal(err)
		}
	}
	index := mongo.IndexModel{Keys: bson.D{{Key: "state", Value: 1}, {Key: "priority", Value: -1}}}
	if _, err := p.coll.Indexes().CreateOne(t.Context(), index); err != nil { // DocumentDB decides otherwise with one
		t.Fatal(err)
	}
	return p
}

func (p *place) claim(l *multilock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
	p.Helper()
	lease, err := l.TryAcquire(p.bounded(), pendingJobs, "write", append(opts, doclock.SkipLocked(), byPriority)...)
	if err != nil {
		p.Fatalf("claim: %v", err)
	}
	return lease
}

func (p *place) claims(l *multilock.Locker, want ...int64) (all []*doclock.Lease) {
	p.Helper()
	var got []int64
	for range want {
		lease := p.claim(l)
		all = append(all, lease)
		got = append(got, lease.DocumentID().AsInt64())
	}
	if !slices.Equal(got, want) {
		p.Errorf("claimed %v, want %v", got, want)
	}
	return all
}

// A claim that is alone sends one command, whatever came before. The order is that of Sort.
func TestAClaimThatIsAloneIsOneCommand(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 3)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	for range 3 {
		var job struct{ Priority int }
		w.commands()
		lease := p.claim(l, doclock.Into(&job))
		if sent := w.commands(); !slices.Equal(sent, []string{"findAndModify"}) || lease.DocumentID().AsInt64() != int64(job.Priority) {
			t.Errorf("sent %v, job %v", sent, job)
		}
		if err := lease.UpdateAndRelease(p.bounded(), bson.M{"$set": bson.M{"state": "done"}}); err != nil {
			t.Fatal(err)
		}
	}
	p.sends(w, 1, "a claim that nothing matches", func() error {
		_, err := l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
		p.wantNot(err, doclock.ErrConflict)
		return err
	}, doclock.ErrNotFound, doclock.ErrNotAcquired)
}

// Locked documents are skipped, in the order of Sort, with one look-up for several claims.
func TestClaimsSkipLockedDocuments(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 4)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	leases := p.claims(l, 104, 103, 102, 101)
	if sent := w.commands(); len(sent) != 6 { // an ask that is granted, one that is refused, a look-up, three tries
		t.Errorf("sent %v", sent)
	}
	_, err := l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
	p.want(err, doclock.ErrNotFound, doclock.ErrNotAcquired)
	p.release(leases[1])
	p.claims(l, 103)
}

// A document that was locked, changed or deleted after the look-up is not claimed.
func TestTheTryJudgesTheCandidate(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 6)
	l, other := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	p.claims(l, 106, 105) // the look-up shows 104 to 101 too
	if _, err := other.TryAcquire(p.bounded(), bson.M{"_id": 104}, "write"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.coll.UpdateOne(t.Context(), bson.M{"_id": 103}, bson.M{"$set": bson.M{"state": "done"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.coll.DeleteOne(t.Context(), bson.M{"_id": 102}); err != nil {
		t.Fatal(err)
	}
	p.claims(l, 101)
}

// An Acquire waits for a new document, for a release of this process, and for an expiry of another one's entry.
func TestAClaimWaits(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 1)
	l, other := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive(), short(700*time.Millisecond))
	wait := func() *pending[*doclock.Lease] {
		return begin(t, func() (*doclock.Lease, error) {
			return l.Acquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
		})
	}
	dead := p.claim(other)
	begun := time.Now()
	lease := p.granted(wait())
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("claimed %v after another process had claimed it", took)
	}
	p.want(dead.Release(p.bounded()), doclock.ErrLost)

	waiting := wait()
	p.eventually("it waits", func() bool { return l.Claimants() == 1 })
	p.release(lease)
	_ = p.granted(waiting)

	waiting = wait()
	p.eventually("it waits", func() bool { return l.Claimants() == 1 })
	if _, err := p.coll.InsertOne(t.Context(), bson.M{"_id": 200, "state": "pending"}); err != nil {
		t.Fatal(err)
	}
	if got := p.granted(waiting).DocumentID().AsInt64(); got != 200 {
		t.Errorf("claimed %d", got)
	}
	_, err := l.Acquire(context.Background(), pendingJobs, "write", doclock.SkipLocked(), doclock.MaxWait(50*time.Millisecond))
	p.want(err, doclock.ErrNotAcquired, doclock.ErrNotFound)
	waiting = wait()
	p.eventually("it waits", func() bool { return l.Claimants() == 1 })
	p.rest(l)
	_, err = waiting.wait()
	p.want(err, doclock.ErrClosed)
}

// A claim of unknown outcome is repeated, or cleaned up: it leaves one entry.
func TestAClaimOfUnknownOutcomeHoldsOneDocument(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		for _, command := range []string{"findAndModify", "aggregate"} {
			t.Run(cut.String()+"/"+command, func(t *testing.T) {
				t.Parallel()
				p := newJobs(t, 3)
				coll, net := p.faulty()
				l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
				first := p.claim(p.locker(p.coll, relations.Exclusive()))
				fault := net.Arm(cut, command)
				lease := p.claim(l)
				wait(t, fault.Fired())
				next := net.Arm(faultnet.LoseReply, "findAndModify") // of a candidate's try
				second := p.claim(l)
				wait(t, next.Fired())
				p.rest(l)
				n, err := p.coll.CountDocuments(t.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
				if err != nil || n != 3 {
					t.Errorf("%d documents are locked, want those of %v, %v and %v (%v)", n, first.DocumentID(), lease.DocumentID(), second.DocumentID(), err)
				}
			})
		}
	}
}

// An ask whose reply is lost has locked the first document. That is released again, whichever the claim takes then.
func TestAnAskOfUnknownOutcomeLeavesNoEntry(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 3)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
	fault := net.Arm(faultnet.LoseReply, "findAndModify")
	lease := p.claim(l)
	wait(t, fault.Fired())
	p.rest(l)
	n, err := p.coll.CountDocuments(t.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
	if err != nil || n != 1 {
		t.Errorf("%d documents are locked, want that of %v (%v)", n, lease.DocumentID(), err)
	}
}

// Two processes claim each document once, and none is left over.
func TestRivalsClaimEachDocumentOnce(t *testing.T) {
	t.Parallel()
	const jobs, workers = 60, 4
	p := newJobs(t, jobs)
	var mu sync.Mutex
	claimed := map[int64]int{}
	var all sync.WaitGroup
	for range 2 {
		l := p.locker(p.coll, relations.Exclusive())
		for range workers {
			all.Go(func() {
				for {
					lease, err := l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
					if errors.Is(err, doclock.ErrNotFound) {
						return
					}
					if err == nil {
						err = lease.UpdateAndRelease(p.bounded(), bson.M{"$set": bson.M{"state": "done"}})
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					claimed[lease.DocumentID().AsInt64()]++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if len(claimed) != jobs {
		t.Errorf("%d of %d were claimed", len(claimed), jobs)
	}
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("%d was claimed %d times", id, n)
		}
	}
}

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

// Close ends a claim at once that waits for the clean-up of an ask of unknown outcome.
func TestCloseEndsAClaimThatCleansUp(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 1)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive(), short(time.Hour), doclock.AttemptTimeout(time.Minute))
	net.Arm(faultnet.LoseReply, "findAndModify")
	var sent atomic.Int32
	cleaning := make(chan struct{})
	net.Block(func(command string, _ []byte) bool {
		if command != "findAndModify" {
			return false
		}
		n := sent.Add(1)
		if n == 2 {
			close(cleaning)
		}
		return n > 1
	})
	waiting := begin(t, func() (*doclock.Lease, error) {
		return l.Acquire(context.Background(), pendingJobs, "write", doclock.SkipLocked())
	})
	wait(t, cleaning)
	closed := begin(t, func() (struct{}, error) { return struct{}{}, l.Close(context.Background()) })
	_, err := waiting.wait()
	p.want(err, doclock.ErrClosed)
	net.Block(nil)
	net.Reset()
	if _, err := closed.wait(); err != nil {
		t.Error(err)
	}
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

// A late command for one document must not meet the entry in another.
func TestAClaimTriesEachCandidateUnderAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 4)
	coll, w := p.watched()
	l, other := p.locker(coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	p.claims(l, 104, 103)
	if _, err := other.TryAcquire(p.bounded(), bson.M{"_id": 102}, "write"); err != nil {
		t.Fatal(err)
	}
	lease := p.claims(l, 101)[0]
	sent := w.All()
	id := lease.ID()
	n := 0
	for _, command := range sent {
		if bytes.Contains(command, id[:]) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d commands have the id of the entry that was granted", n)
	}
}

// A release of this Locker is noticed long before the next poll.
func TestAReleaseWakesAClaim(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 1)
	l := p.locker(p.coll, relations.Exclusive())
	lease := p.claim(l)
	woken := l.Woken()
	waiting := begin(t, func() (*doclock.Lease, error) {
		return l.Acquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked())
	})
	p.eventually("it waits", func() bool { return l.Claimants() == 1 })
	p.release(lease)
	p.granted(waiting)
	if l.Woken() == woken {
		t.Error("the claims were not told of the release")
	}
}
