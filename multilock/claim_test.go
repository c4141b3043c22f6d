package multilock_test

import (
	"slices"
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
	p.jobs(n)
	return p
}

func (p *place) jobs(n int) {
	p.Helper()
	for i := 1; i <= n; i++ {
		_, err := p.coll.InsertOne(p.Context(), bson.M{"_id": 100 + i, "state": "pending", "priority": 100 + i})
		must(p, err)
	}
	index := mongo.IndexModel{Keys: bson.D{{Key: "state", Value: 1}, {Key: "priority", Value: -1}}}
	_, err := p.coll.Indexes().CreateOne(p.Context(), index) // DocumentDB decides otherwise with one
	must(p, err)
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
		w.Take()
		lease := p.claim(l, doclock.Into(&job))
		if sent := w.Take(); !slices.Equal(sent, []string{"findAndModify"}) || lease.DocumentID().AsInt64() != int64(job.Priority) {
			t.Errorf("sent %v, job %v", sent, job)
		}
		must(t, lease.UpdateAndRelease(p.bounded(), bson.M{"$set": bson.M{"state": "done"}}))
	}
	p.sends(w, 1, "a claim that nothing matches", func() error {
		_, err := l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
		p.wantNot(err, doclock.ErrConflict)
		return err
	}, doclock.ErrNotFound, doclock.ErrNotAcquired)
}

// Locked documents are skipped, in the order of Sort, with one look-up for several claims.
func TestClaimsSkipLockedDocuments(t *testing.T) {
	virtual(t, func(p *place) { // a look-up is of use for a tenth of a second
		p.jobs(4)
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive())
		leases := p.claims(l, 104, 103, 102, 101)
		if sent := w.Take(); len(sent) != 6 { // an ask that is granted, one that is refused, a look-up, three tries
			p.Errorf("sent %v", sent)
		}
		p.want(errOf(l.TryAcquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority)), doclock.ErrNotFound, doclock.ErrNotAcquired)
		p.release(leases[1])
		time.Sleep(time.Millisecond)
		p.claims(l, 103)
	})
}

// A document that was locked, changed or deleted after the look-up is not claimed.
func TestTheTryJudgesTheCandidate(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(6)
		l, other := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
		p.claims(l, 106, 105) // the look-up shows 104 to 101 too
		must(p, errOf(other.TryAcquire(p.Context(), bson.M{"_id": 104}, "write")))
		must(p, errOf(p.coll.UpdateOne(p.Context(), bson.M{"_id": 103}, bson.M{"$set": bson.M{"state": "done"}})))
		must(p, errOf(p.coll.DeleteOne(p.Context(), bson.M{"_id": 102})))
		p.claims(l, 101)
	})
}

// An Acquire waits for an expiry of another process's entry, for a release of this process, which wakes it at once, for
// a new document, and for Close.
func TestAClaimWaits(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(1)
		l, other := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Minute))
		wait := func() *pending[*doclock.Lease] {
			call := begin(p, func() (*doclock.Lease, error) {
				return l.Acquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
			})
			p.eventually("it waits", func() bool { return l.Claimants() == 1 })
			return call
		}
		begun := time.Now()
		dead := p.claim(other)
		lease := p.granted(wait())
		if took := time.Since(begun); took < time.Minute {
			p.Errorf("claimed %v after another process had claimed it", took)
		}
		p.want(dead.Release(p.Context()), doclock.ErrLost)

		waiting := wait()
		time.Sleep(10 * time.Second) // it asks seldom now
		p.release(lease)
		begun = time.Now()
		p.granted(waiting)
		if took := time.Since(begun); took > 10*time.Millisecond {
			p.Errorf("woken by the release after %v", took)
		}

		waiting = wait()
		must(p, errOf(p.coll.InsertOne(p.Context(), bson.M{"_id": 200, "state": "pending"})))
		if got := p.granted(waiting).DocumentID().AsInt64(); got != 200 {
			p.Errorf("claimed %d", got)
		}
		_, err := l.Acquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), doclock.MaxWait(time.Second))
		p.want(err, doclock.ErrNotAcquired, doclock.ErrNotFound)
		waiting = wait()
		p.rest(l)
		p.want(errOf(waiting.wait()), doclock.ErrClosed)
	})
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
				must(t, errOf(other.TryAcquire(p.bounded(), bson.M{"_id": 102}, tag)))
			}
			for range 2 { // by an ask, and by a look-up
				lease := p.got(l.TryAcquire(p.bounded(), pendingJobs, c.tag, doclock.SkipLocked(), byPriority))
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
		lease := p.claim(l, doclock.HoldAtLeast(time.Hour), doclock.TTL(time.Minute), doclock.Owner("a worker"))
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
	p.want(errOf(l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)), doclock.ErrNotFound)
}

// TestAcquireRefusesBadInput has what each call refuses.
func TestOptionsThatDontFitAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	skips, waits := fault{doclock.ErrInvalidArgument, []string{"SkipLocked"}}, fault{doclock.ErrInvalidArgument, []string{"MaxWait"}}
	skips.check(t, "Enqueue", errOf(l.Enqueue(p.bounded(), byName, "write", doclock.SkipLocked())))
	waits.check(t, "TryAcquire", errOf(l.TryAcquire(p.bounded(), flowers, "write", doclock.MaxWait(time.Second))))
	waits.check(t, "Enqueue", errOf(l.Enqueue(p.bounded(), flowers, "write", doclock.MaxWait(time.Second))))
	if sent := w.Take(); len(sent) != 0 {
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
	p.want(errOf(l.TryAcquire(p.bounded(), pendingJobs, "write", byPriority)), doclock.ErrConflict)
	lease := p.got(l.TryAcquire(p.bounded(), bson.M{"_id": 101}, "write", byPriority, doclock.SkipLocked()))
	p.want(errOf(l.TryAcquire(p.bounded(), bson.M{"_id": 101}, "write", doclock.SkipLocked())), doclock.ErrNotFound, doclock.ErrConflict)
	p.release(lease)
}
