package multilock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
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
