package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type priority struct {
	ID       int `bson:"_id"`
	Priority int
}

func (p *place) batch(l *multilock.Locker, n int, opts ...doclock.AcquireOption) multilock.Leases {
	p.Helper()
	leases, err := l.AcquireBatch(p.bounded(), pendingJobs, "write", n, append(opts, byPriority)...)
	if err != nil {
		p.Fatalf("batch: %v", err)
	}
	return leases
}

// A batch is three commands, and its release one. The documents are those of the leases, by Sort.
func TestABatchIsThreeCommands(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 7)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	jobs := []priority{{1, 1}}
	leases := p.batch(l, 5, doclock.Into(&jobs), doclock.Owner("me"), doclock.HoldAtMost(time.Minute))
	if hint := w.All()[1].Lookup("updates", "0", "hint", "_id"); hint.AsInt64() != 1 {
		t.Errorf("the hint is %v", hint)
	}
	if sent := w.Take(); !slices.Equal(sent, []string{"find", "update", "find"}) {
		t.Errorf("sent %v", sent)
	}
	for i, lease := range leases {
		if want := 107 - i; len(leases) != 5 || jobs[i] != (priority{want, want}) || lease.DocumentID().AsInt64() != int64(want) || lease.ID() != leases[0].ID() {
			t.Errorf("lease %d is %v of %v", i, lease, jobs)
		}
		if left := lease.Remaining(); left > calm || left < calm-patience {
			t.Errorf("%v left", left)
		}
	}
	done := bson.M{"$set": bson.M{"state": "done"}}
	collated := options.UpdateOne().SetCollation(&options.Collation{Locale: "en", Strength: 1})
	p.want(leases[1].Update(p.bounded(), done, collated), doclock.ErrInvalidArgument)
	ok(t, leases[1].UpdateAndRelease(p.bounded(), done))
	p.wantLocked(4)
	w.Take()
	ok(t, leases.Release(p.bounded()))
	if sent := w.Take(); !slices.Equal(sent, []string{"update"}) {
		t.Errorf("the release sent %v", sent)
	}
	p.wantLocked(0)
	if leases = p.batch(l, 500); len(leases) != 6 {
		t.Errorf("%d leases of 6 jobs", len(leases))
	}
	p.want(errOf(l.AcquireBatch(p.bounded(), pendingJobs, "write", 5, doclock.MaxWait(0))), doclock.ErrNotFound, doclock.ErrNotAcquired)
	ok(t, leases.Release(p.bounded()))
}

// The loss of one lease ends what works on that one alone. Others of the process know which document an id is in.
func TestLeasesOfABatchAreOnTheirOwn(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(3)
		h, hear := p.heard()
		l := p.plain(relations.Exclusive(), hear)
		leases := p.batch(l, 3)
		if granted := h.of(doclock.EventGranted); len(granted) != 3 || granted[0].Commands != 3 || granted[1].Commands != 0 {
			p.Errorf("granted: %v", granted)
		}
		var kept []context.Context
		for _, lease := range leases {
			kept = append(kept, lease.KeepAlive(p.Context()))
		}
		must(p, p.mem.Lose(leases[1]))
		time.Sleep(time.Minute)
		for i, ctx := range kept {
			if (ctx.Err() != nil) != (i == 1) || (leases[i].Err() != nil) != (i == 1) {
				p.Errorf("lease %d: %v, %v", i, context.Cause(ctx), leases[i].Err())
			}
		}
		// A lease of another document with the same id is no reason to refuse a nested acquire.
		other := p.plain(relations.WritePreferring())
		var conflict *doclock.ConflictError
		if err := errOf(other.TryAcquire(kept[0], doclock.ID(leases[2].DocumentID()), "write")); !errors.As(err, &conflict) || conflict.Holders[0].InContext {
			p.Errorf("%v", err)
		}
		if err := errOf(l.TryAcquire(p.Context(), doclock.ID(leases[2].DocumentID()), "write")); !errors.As(err, &conflict) || !conflict.Holders[0].InProcess {
			p.Errorf("%v", err)
		}
		must(p, leases[2].Release(p.Context()))
		must(p, errOf(other.TryAcquire(p.Context(), doclock.ID(leases[2].DocumentID()), "write")))
		if err := errOf(l.TryAcquire(p.Context(), doclock.ID(leases[0].DocumentID()), "write")); !errors.As(err, &conflict) || !conflict.Holders[0].InProcess {
			p.Errorf("after the end of another one: %v", err)
		}
		p.want(leases.Release(p.Context()), doclock.ErrLost)
	})
}

// Each lease of a batch is handed over to the waiter of its own document, though all have one id.
func TestABatchIsHandedOver(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(3)
		l := p.plain(relations.Exclusive(), doclock.TTL(relayTTL))
		leases := p.batch(l, 3)
		granted := make(chan doclock.Lease, len(leases))
		for _, held := range leases {
			go func() {
				after, err := l.Acquire(p.Context(), doclock.ID(held.DocumentID()), "write")
				must(p, err)
				if !after.DocumentID().Equal(held.DocumentID()) {
					p.Errorf("it waited for %v, and got %v", held.DocumentID(), after.DocumentID())
				}
				granted <- after
			}()
		}
		synctest.Wait()
		p.mem.Delay(len(leases), time.Second) // all are under way at the same time
		must(p, leases.Release(p.Context()))
		for range leases {
			must(p, (<-granted).Release(p.Context()))
		}
		p.wantLocked(0)
	})
}

// The validity counts from the entries that the last read shows, however long the commands take.
func TestABatchIsValidByItsLastRead(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(2)
		net := faultnet.New()
		l := p.makeLocker(p.Through(options.Client().SetDialer(net)), relations.Exclusive(), doclock.TTL(10*time.Second))
		late := net.ArmWhere(faultnet.DelayReply, func(command string, _ bson.Raw) bool { return command == "update" })
		go func() {
			<-late.Fired()
			time.Sleep(2 * time.Second)
			ok(p, late.Let())
		}()
		leases := p.batch(l, 2)
		for _, lease := range leases {
			if left := lease.Remaining(); left > 8*time.Second || left < 7900*time.Millisecond {
				p.Errorf("%v left", left)
			}
		}
		ok(p, leases.Release(p.Context()))
	})
}

// What a batch has made is removed if the read comes when its time is up: nobody has it, and it would keep all out.
func TestABatchThatIsReadTooLate(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(2)
		finds := 0
		coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
			if fixture.Name(command) != "find" {
				return
			}
			if finds++; finds == 2 {
				p.mem.Down(errAway)
				time.AfterFunc(3*time.Second, p.mem.Up)
			}
		})))
		l := p.locker(coll, relations.Exclusive(), doclock.TTL(2*time.Second), doclock.ClockTolerance(time.Hour))
		begun := time.Now()
		leases := p.batch(l, 2)
		if took := time.Since(begun); len(leases) != 2 || took < 3*time.Second || took > 10*time.Second {
			p.Errorf("%v after %v", leases, took)
		}
		ok(p, leases.Release(p.Context()))
	})
}

// A batch without an answer has what a read proves. What the read doesn't show is removed, in each document by itself, and
// nothing else is.
func TestABatchOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	update := func(command string, _ bson.Raw) bool { return command == "update" }
	finds := 0
	second := func(command string, _ bson.Raw) bool {
		if command == "find" {
			finds++
		}
		return command == "find" && finds == 2
	}
	for name, c := range map[string]struct {
		kind    faultnet.Kind
		matches func(string, bson.Raw) bool
		sent    []string
	}{
		"the reply is lost":               {faultnet.LoseReply, update, []string{"find", "update", "find"}},
		"the request is lost":             {faultnet.LoseRequest, update, []string{"find", "update", "find", "update", "find"}},
		"it comes late":                   {faultnet.Hold, update, []string{"find", "update", "find", "update", "find"}},
		"the reply of the read is lost":   {faultnet.LoseReply, second, []string{"find", "update", "find", "find"}},
		"the reply of the search is lost": {faultnet.LoseReply, func(command string, _ bson.Raw) bool { return command == "find" }, []string{"find", "find", "update", "find"}},
	} {
		virtually(t, name, func(p *place) {
			p.jobs(4)
			net, w := faultnet.New(), &fixture.Commands{}
			l := p.locker(p.Through(options.Client().SetDialer(net).SetMonitor(w.Monitor())), relations.Exclusive())
			finds = 0
			fault := net.ArmWhere(c.kind, c.matches)
			leases := p.batch(l, 2)
			sent := slices.DeleteFunc(w.Take(), func(name string) bool { return name == "findAndModify" }) // the clean-up's
			if !slices.Equal(sent, c.sent) || len(leases) != 2 {
				p.Errorf("%d leases; sent %v", len(leases), sent)
			}
			other := p.locker(p.coll, relations.Exclusive())
			if len(p.batch(other, 4)) != 2 {
				p.Error("the batch has locked more than it says")
			}
			ok(p, leases.Release(p.Context()))
			if c.kind == faultnet.Hold {
				ok(p, fault.Let())
			}
			time.Sleep(calm) // no longer than an entry's life
			p.wantLocked(2)
			p.rest(l)
		})
	}
}

// The late request of one attempt makes entries beside the leases of the next. Its id is taken out, and the leases stay.
func TestALateBatchIsCleanedUp(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(2)
		net := faultnet.New()
		l := p.locker(p.Through(options.Client().SetDialer(net)), relations.Semaphore(2))
		fault := net.ArmWhere(faultnet.Hold, func(command string, _ bson.Raw) bool { return command == "update" })
		leases, err := l.AcquireBatch(p.bounded(), pendingJobs, "slot", 2)
		must(p, err)
		ok(p, fault.Let())
		time.Sleep(10 * time.Second)
		for _, lease := range leases {
			if n, err := p.coll.CountDocuments(p.Context(), append(lease.Guard(), bson.E{Key: "lock.tags.slot.1", Value: nil})); n != 1 || err != nil {
				p.Errorf("%v is gone, or not alone", lease)
			}
		}
		ok(p, leases.Release(p.Context()))
	})
}

// Documents that can't take the lock are passed over, and half a batch counts.
func TestABatchPassesOverDocumentsThatCannotTakeTheLock(t *testing.T) {
	virtual(t, func(p *place) {
		p.letters(1, 6)
		must(p, errOf(p.coll.UpdateOne(p.Context(), doclock.ID(4), bson.M{"$set": bson.M{"n": bson.A{4, -4}}})))
		h, hear := p.heard()
		l := p.plain(relations.Exclusive(), hear)
		var all multilock.Leases
		for _, want := range []int{3, 2} {
			leases, err := l.AcquireBatch(p.Context(), bson.M{}, "write", 7, doclock.MaxWait(0), doclock.Sort(bson.D{{Key: "due", Value: 1}}))
			must(p, err)
			all = append(all, leases...)
			if skipped := h.of(doclock.EventSkipped); len(leases) != want || len(skipped) != 2 {
				p.Errorf("%d leases, passed over %v", len(leases), skipped)
			}
		}
		ok(p, all.Release(p.Context()))
	})
}

// A batch waits as Acquire does, for a release of this process and for Close. Without its caller it leaves nothing.
func TestABatchWaits(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(2)
		l := p.locker(p.coll, relations.Exclusive())
		first := p.batch(l, 2)
		wait := func(ctx context.Context) *pending[multilock.Leases] {
			call := begin(p, func() (multilock.Leases, error) { return l.AcquireBatch(ctx, pendingJobs, "write", 2) })
			p.eventually("it waits", func() bool { return l.Claimants() == 1 })
			return call
		}
		waiting := wait(p.Context())
		time.Sleep(10 * time.Second)
		begun := time.Now()
		ok(p, first.Release(p.Context()))
		got, err := waiting.wait()
		if must(p, err); len(got) != 2 || time.Since(begun) > 10*time.Millisecond {
			p.Errorf("%v after %v", got, time.Since(begun))
		}
		p.want(errOf(wait(p.within(time.Second)).wait()), doclock.ErrNotAcquired, context.DeadlineExceeded)
		ok(p, got.Release(p.Context()))

		p.mem.Delay(1, time.Second, locktest.Acquires)
		leaving := begin(p, func() (multilock.Leases, error) {
			return l.AcquireBatch(p.within(time.Second/2), pendingJobs, "write", 2)
		})
		p.want(errOf(leaving.wait()), doclock.ErrNotAcquired)
		time.Sleep(time.Minute)
		p.wantLocked(0)

		last := p.batch(l, 2)
		waiting = wait(p.Context())
		ok(p, last.Release(p.Context()))
		got, err = waiting.wait()
		must(p, err)
		waiting = wait(p.Context())
		closed := begin(p, func() (any, error) { return nil, l.Close(p.Context()) })
		p.want(errOf(waiting.wait()), doclock.ErrClosed, doclock.ErrNotAcquired)
		if err := errOf(closed.wait()); err == nil {
			p.Error("Close says nothing of the leases that it leaves")
		}
		ok(p, got.Release(p.Context()))
	})
}

// What doesn't go with a batch is refused before anything is sent.
func TestABatchRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 1)
	coll, w := p.watched()
	l, upserts := p.locker(coll, relations.Exclusive()), p.locker(coll, relations.Exclusive(), doclock.Upsert())
	var one priority
	refused := func(l *multilock.Locker, n int, says string, opts ...doclock.AcquireOption) {
		t.Helper()
		_, err := l.AcquireBatch(p.Context(), pendingJobs, "write", n, opts...)
		fault{doclock.ErrInvalidArgument, []string{says}}.check(t, says, err)
	}
	refused(l, 0, "a batch of 0; give 1 to 500")
	refused(l, 501, "a batch of 501")
	refused(l, 2, "a pointer to a slice", doclock.Into(&one))
	refused(l, 2, "a batch takes what is free", doclock.TakeOver())
	refused(l, 2, "option 0 is nil", nil)
	refused(upserts, 2, "a Locker without Upsert")
	if n := w.Count(); n > 0 {
		t.Errorf("%d commands", n)
	}
	var wrong []struct{ Priority string }
	_, err := l.AcquireBatch(p.Context(), pendingJobs, "write", 2, doclock.Into(&wrong))
	fault{doclock.ErrNotAcquired, []string{"decode document 101 into a *struct"}}.check(t, "Into", err)
	if p.rest(l); len(wrong) > 0 {
		t.Errorf("the slice is %v", wrong)
	}
	p.wantLocked(0)
}

// Where others take what a batch has found, the next look-ups are for more documents: 16 times as many as it claims at most.
func TestABatchLooksForSixteenTimesAsManyAtMost(t *testing.T) {
	t.Parallel()
	for taken, want := range map[int][]int64{4: {4, 16, 64, 64, 64}, 2: {4, 8, 16, 32, 64, 64, 64}} {
		virtually(t, fmt.Sprint(taken, " of 4 are taken"), func(p *place) {
			p.jobs(100)
			change := func(filter any, state string) {
				must(p, errOf(p.coll.UpdateMany(p.Context(), filter, bson.M{"$set": bson.M{"state": state}})))
			}
			var limits []int64
			coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
				limit, looks := command.Lookup("limit").AsInt64OK()
				switch {
				case fixture.Name(command) == "find" && looks:
					limits = append(limits, limit)
					change(bson.M{"state": "taken"}, "pending")
				case fixture.Name(command) == "update" && len(limits) < len(want):
					ids, err := command.Lookup("updates", "0", "q", "$and", "1", "_id", "$in").Array().Values()
					must(p, err)
					change(bson.M{"_id": bson.M{"$in": ids[:taken]}}, "taken")
				}
			})))
			l := p.locker(coll, relations.Exclusive())
			for len(limits) < len(want) {
				p.batch(l, 4)
			}
			if !slices.Equal(limits, want) {
				p.Errorf("it looks for %v documents, want %v", limits, want)
			}
		})
	}
}

// 32 workers that look at the same head: they meet, and choose among more. What others take between two commands is in none
// of the other batches, and is not lost: each job is done once.
func TestCrowdedBatches(t *testing.T) {
	const workers, size, jobs = 32, 50, 1600
	virtual(t, func(p *place) {
		var all []any
		for i := range jobs {
			all = append(all, bson.M{"_id": 1000 + i, "state": "pending", "priority": i})
		}
		must(p, errOf(p.coll.InsertMany(p.Context(), all)))
		net, w := faultnet.New(), &fixture.Commands{}
		net.Delay(2 * time.Millisecond)
		coll := p.Through(options.Client().SetDialer(net).SetMonitor(w.Monitor()))
		var mu sync.Mutex
		done, releases := map[int]int{}, 0
		var group sync.WaitGroup
		for range workers {
			l := p.locker(coll, relations.Exclusive())
			group.Go(func() {
				for {
					var got []priority
					leases, err := l.AcquireBatch(p.Context(), pendingJobs, "write", size, byPriority, doclock.Into(&got), doclock.MaxWait(0))
					if errors.Is(err, doclock.ErrNotFound) {
						return
					}
					if err != nil {
						p.Error(err)
						return
					}
					time.Sleep(time.Duration(len(leases)) * 2 * time.Millisecond) // the work
					mu.Lock()
					var ids bson.A
					for _, job := range got {
						done[job.ID]++
						ids = append(ids, job.ID)
					}
					releases++
					mu.Unlock()
					ok(p, errOf(p.coll.UpdateMany(p.Context(), bson.M{"_id": bson.M{"$in": ids}}, bson.M{"$set": bson.M{"state": "done"}})))
					ok(p, leases.Release(p.Context()))
					ok(p, errOf(p.coll.DeleteMany(p.Context(), bson.M{"_id": bson.M{"$in": ids}})))
				}
			})
		}
		group.Wait()
		for id, times := range done {
			if times != 1 {
				p.Errorf("job %d was done %d times", id, times)
			}
		}
		each := float64(w.Count()) / float64(len(done))
		p.Logf("%.3f commands a job, %.1f jobs a batch", each, float64(len(done))/float64(releases))
		if len(done) != jobs || each > 0.26 {
			p.Errorf("%d jobs, %.3f commands each", len(done), each)
		}
	})
}

// third is a document whose third decoding panics.
type third int

func (*third) UnmarshalBSON([]byte) error {
	if decoded++; decoded == 3 {
		panic("the caller's codec")
	}
	return nil
}

var decoded int

// A caller's decoding that panics leaves no lock, of the documents before and after it neither.
func TestABatchWhoseDecodingPanics(t *testing.T) {
	p := newJobs(t, 5)
	l := p.locker(p.coll, relations.Exclusive())
	decoded = 0
	var jobs []third
	if recovered(func() { _, _ = l.AcquireBatch(p.Context(), pendingJobs, "write", 5, doclock.Into(&jobs)) }) == nil || decoded != 3 {
		t.Errorf("%d were decoded without a panic", decoded)
	}
	if p.rest(l); len(jobs) > 0 {
		t.Errorf("the slice is %v", jobs)
	}
	p.wantLocked(0)
}
