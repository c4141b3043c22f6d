package multilock_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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

func (p *place) claim(l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
	p.Helper()
	lease, err := l.Acquire(p.bounded(), pendingJobs, "write", append(opts, doclock.SkipLocked(), byPriority)...)
	if err != nil {
		p.Fatalf("claim: %v", err)
	}
	return lease
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
	w.Take()
	p.want(errOf(l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)), doclock.ErrNotFound, doclock.ErrNotAcquired)
	if sent := w.Take(); !slices.Equal(sent, []string{"findAndModify", "find"}) {
		t.Errorf("a claim that nothing matches sent %v", sent)
	}
}

// Where the filter doesn't pin the shard key, a look-up shows a document, and one that was locked, changed or deleted since
// is not claimed.
func TestTheCommandJudgesTheCandidate(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(6)
		other := p.locker(p.coll, relations.Exclusive())
		meanwhile := []func(){
			func() { must(p, errOf(other.TryAcquire(p.Context(), bson.M{"_id": 106}, "write"))) },
			func() {
				must(p, errOf(p.coll.UpdateMany(p.Context(), bson.M{"_id": bson.M{"$gt": 103}}, bson.M{"$set": bson.M{"state": "done"}})))
				must(p, errOf(p.coll.DeleteOne(p.Context(), bson.M{"_id": 103})))
			},
		}
		var pins []bson.RawValue
		coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
			if fixture.Name(command) != "findAndModify" {
				return
			}
			if len(meanwhile) > 0 {
				next := meanwhile[0]
				meanwhile = meanwhile[1:]
				next()
			}
			pins = append(pins, command.Lookup("query", "$and", "0", "$and", "1", "_id"), command.Lookup("query", "$and", "0", "$and", "1", "country"))
		})))
		l := p.locker(coll, relations.Exclusive(), doclock.ShardKey("country"))
		lease := p.claim(l)
		if id := lease.DocumentID().AsInt64(); id < 101 || id > 102 || len(meanwhile) > 0 {
			p.Errorf("claimed %d, %d changes are left", id, len(meanwhile))
		}
		for _, pin := range pins {
			if pin.Type == 0 {
				p.Errorf("a command has no pin: %v", pins)
			}
		}
		p.want(errOf(l.TryAcquire(p.Context(), bson.M{"state": "none"}, "write", doclock.SkipLocked())), doclock.ErrNotFound)
	})
}

// A claim waits for an expiry of another process's entry. claim_wait_test.go has what else it waits for, and
// TestCloseEndsAClaim its end.
func TestAClaimWaits(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(1)
		begun := time.Now()
		dead := p.claim(p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Minute)))
		p.claim(p.locker(p.coll, relations.Exclusive()))
		if took := time.Since(begun); took < time.Minute || took > time.Minute+5*time.Second {
			p.Errorf("claimed %v after another process had claimed it", took)
		}
		p.want(dead.Release(p.Context()), doclock.ErrLost)
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
			for _, l := range []*multilock.Locker{l, p.locker(p.coll, c.rules, append(opts, doclock.ShardKey("state"))...)} {
				lease := p.got(l.TryAcquire(p.bounded(), pendingJobs, c.tag, doclock.SkipLocked(), byPriority))
				if got := lease.DocumentID().AsInt64() == 102; got != c.free {
					t.Errorf("claimed %v", lease.DocumentID())
				}
				p.release(lease)
			}
		})
	}
}

// The terms of a claim are those of its entry. A remainder is skipped.
func TestAClaimHasItsTerms(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 3)
	l := p.locker(p.coll, relations.Exclusive())
	for _, want := range []int64{103, 102, 101} {
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
	p.want(errOf(l.TryAcquire(p.bounded(), bson.M{"_id": 101}, "write", doclock.SkipLocked())), doclock.ErrNotFound)
	p.release(lease)
}

func codeOf(err error) int32 {
	var command mongo.CommandError
	errors.As(err, &command)
	return command.Code
}

// jobOf is the _id of the job that a claim takes.
func (p *place) jobOf(l *multilock.Locker, opts ...doclock.AcquireOption) (string, error) {
	var doc struct {
		ID string `bson:"_id"`
	}
	_, err := l.Acquire(p.Context(), pendingJobs, "write", append(opts, doclock.SkipLocked(), byPriority, doclock.Into(&doc))...)
	return doc.ID, err
}

func pendingJob(id string, priority, size int) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "state", Value: "pending"}, {Key: "priority", Value: priority}, {Key: "x", Value: strings.Repeat("x", size)}}
}

// A document that its entry doesn't fit into is passed over, with one event a minute. It ends a claim only if nothing else
// is free, also one that would wait.
func TestAClaimPassesOverADocumentThatCannotTakeTheLock(t *testing.T) {
	virtual(t, func(p *place) {
		_, err := p.coll.InsertMany(p.Context(), []any{pendingJob("full", 9, 16<<20-120), pendingJob("a", 3, 0), pendingJob("b", 2, 0)})
		must(p, err)
		h, hear := p.heard()
		l := p.plain(relations.Exclusive(), hear)
		takes := func(want string) {
			p.Helper()
			if id, err := p.jobOf(l); id != want || err != nil {
				p.Errorf("claimed %q, want %q: %.200v", id, want, err)
			}
		}
		takes("a")
		takes("b")
		for _, wait := range []time.Duration{0, time.Second} { // who knows the document, and waits
			_, err := p.jobOf(l, doclock.MaxWait(wait))
			if p.want(err, doclock.ErrNotFound); codeOf(err) != 0 {
				p.Errorf("%.200v", err)
			}
		}
		begun := time.Now()
		_, err = p.jobOf(p.plain(relations.Exclusive(), hear)) // who doesn't know it
		if codeOf(err) != 17419 || !strings.Contains(err.Error(), "full") || errors.Is(err, doclock.ErrNotFound) || time.Since(begun) > time.Second {
			p.Errorf("%.200v", err)
		}
		time.Sleep(time.Minute)
		takes("a") // its first lease is over
		skipped := h.of(doclock.EventSkipped)
		for _, e := range skipped {
			if e.DocumentID.StringValue() != "full" || codeOf(e.Err) != 17419 {
				p.Errorf("got %.200v", e)
			}
		}
		if len(skipped) != 3 {
			p.Errorf("%d events", len(skipped))
		}
	})
}

// wantLocked fails unless so many documents are locked.
func (p *place) wantLocked(want int64) {
	p.Helper()
	n, err := p.coll.CountDocuments(p.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
	if err != nil || n != want {
		p.Errorf("%d documents are locked, want %d (%v)", n, want, err)
	}
}

// A filter with the server's clock becomes right by itself while a claim waits.
func TestAClaimWaitsForTheServersClock(t *testing.T) {
	virtual(t, func(p *place) {
		const in = 30 * time.Second
		p.Change(bson.M{"$set": bson.M{"due": time.Now().Add(in)}}) // document 2 has none
		filter := bson.M{"due": bson.M{"$type": "date"}, "$expr": bson.M{"$lte": bson.A{"$due", "$$NOW"}}}
		began := time.Now()
		lease, err := p.locker(p.coll, relations.Exclusive()).Acquire(p.Context(), filter, "write", doclock.SkipLocked())
		if must(p, err); lease.DocumentID().AsInt64() != 1 {
			p.Errorf("it has document %v", lease.DocumentID())
		}
		if took := time.Since(began); took < in || took > in+5*time.Second {
			p.Errorf("it has waited for %v", took)
		}
	})
}

// A dump of a replica set, restored to a standalone server, has a dead holder's entry with a
// mark: a claim settles and drops it, as an Acquire by the _id does.
func TestAClaimOfAMarkOnAServerWithoutMembers(t *testing.T) {
	virtual(t, func(p *place) {
		id := bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte("................")}
		past := time.Now().Add(-time.Hour)
		p.Change(bson.M{"$set": bson.M{"lock": bson.M{"v": 2, "fence": int64(5), "tags": bson.M{"write": bson.A{bson.M{
			"id": id, "owner": "dead", "seq": int64(5), "fence": int64(5), "since": past, "expires": past,
			"fenced": bson.M{"id": id, "slots": 1},
		}}}}}})
		l := p.plain(relations.Exclusive())
		p.release(p.got(l.Acquire(p.within(time.Minute), byName, "write", doclock.SkipLocked())))
	})
}
