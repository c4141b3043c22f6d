package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Claims take one command each, in the order of Sort, however many there are: those that are under way may be overtaken.
func TestClaimsOfManyWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		processes, workers int // of each
		commands           float64
	}{
		"a lone worker":              {1, 1, 1},
		"eight workers":              {1, 8, 1.15},
		"32 workers in 4 processes":  {4, 8, 1.15},
		"16 workers in 16 processes": {16, 1, 1.15},
	} {
		virtually(t, name, func(p *place) {
			const jobs = 160
			p.jobs(jobs)
			p.mem.Delay(1<<30, 3*time.Millisecond)
			var commands atomic.Int64
			var lock sync.Mutex
			var order []int64
			var workers sync.WaitGroup
			left := atomic.Int64{}
			left.Store(jobs)
			for range c.processes {
				l := p.locker(p.Through(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
					if command.Lookup("comment").StringValue() == "doclock claim" {
						commands.Add(1)
					}
				}))), relations.Exclusive())
				for range c.workers {
					workers.Go(func() {
						for left.Add(-1) >= 0 {
							lease := p.got(l.TryAcquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority))
							lock.Lock()
							order = append(order, lease.DocumentID().AsInt64())
							lock.Unlock()
							time.Sleep(rand.N(20 * time.Millisecond))
							ok(p, lease.UpdateAndRelease(p.Context(), bson.M{"$set": bson.M{"state": "done"}}))
						}
					})
				}
			}
			workers.Wait()
			worst := 0
			for i, id := range order { // of higher priority, and claimed later
				off := 0
				for _, later := range order[i+1:] {
					if later > id {
						off++
					}
				}
				worst = max(worst, off)
			}
			slices.Sort(order)
			if each := float64(commands.Load()) / jobs; each > c.commands || worst > c.processes*c.workers || len(slices.Compact(order)) != jobs {
				p.Errorf("%.2f commands a claim, %d places off at worst", each, worst)
			}
		})
	}
}

// Of the claims that nothing is free for, one polls on behalf of all. As many are woken as there are new documents. In an
// outage all of them get its error.
func TestIdleClaimsPollTogether(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive())
		var granted, failed atomic.Int32
		for range 50 {
			go func() {
				_, err := l.Acquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
				switch {
				case err == nil:
					granted.Add(1)
				case errors.Is(err, doclock.ErrNotAcquired) && strings.Contains(err.Error(), "no cable"):
					failed.Add(1)
				default:
					p.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if n := l.Claimants(); n != 50 {
			p.Errorf("%d claims wait", n)
		}
		w.Take()
		time.Sleep(time.Minute)
		if sent := w.Take(); len(sent) > 120 || slices.Contains(sent, "findAndModify") {
			p.Errorf("%d commands in a minute: %v", len(sent), sent)
		}
		p.jobs(10)
		time.Sleep(2 * time.Second)
		sent := w.Take()
		asks := len(slices.DeleteFunc(slices.Clone(sent), func(command string) bool { return command == "find" }))
		if granted.Load() != 10 || asks > 10 || len(sent) > 80 { // it polls often when it has found something
			p.Errorf("ten jobs: %d claims are granted, by %v", granted.Load(), sent)
		}
		p.mem.Down(errors.New("no cable"))
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if failed.Load() != 40 {
			p.Errorf("%d claims have the error of the outage", failed.Load())
		}
		p.mem.Up()
	})
}

// A claim leaves during its poll. The next one polls then, and without one nobody waits any more.
func TestAnIdleClaimLeaves(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"alone": true, "before another": false} {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			wait := func(ctx context.Context) *pending[doclock.Lease] {
				call := begin(p, func() (doclock.Lease, error) {
					return l.Acquire(ctx, pendingJobs, "write", doclock.SkipLocked(), byPriority)
				})
				synctest.Wait()
				return call
			}
			ctx, leave := context.WithCancel(p.Context())
			first, next := wait(ctx), (*pending[doclock.Lease])(nil)
			if !alone {
				next = wait(p.Context())
			}
			time.Sleep(time.Minute)
			p.mem.Delay(1, 5*time.Second, locktest.Acquires)
			time.Sleep(2 * time.Second) // a poll is under way
			leave()
			p.want(errOf(first.wait()), context.Canceled, doclock.ErrNotAcquired, doclock.ErrNotFound)
			p.jobs(1)
			begun := time.Now()
			if next != nil {
				p.granted(next)
			}
			if took := time.Since(begun); took > 2*time.Second {
				p.Errorf("granted after %v", took)
			}
			time.Sleep(time.Minute)
			if n := l.Claimants(); n != 0 {
				p.Errorf("%d claims wait", n)
			}
		})
	}
}

// An idle claim looks again at once when this process has removed an entry: also if a poll is under way, which has not seen
// that, or by a clean-up.
func TestAnIdleClaimHearsOfWhatIsRemoved(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{true, false} {
		virtually(t, fmt.Sprint("during a poll: ", during), func(p *place) {
			p.jobs(1)
			coll, net := p.faulty()
			l, holders := p.locker(coll, relations.Exclusive(), doclock.PollInterval(time.Minute)), p.locker(p.coll, relations.Exclusive())
			if during {
				holders = l
			}
			holder := p.claim(holders)
			holder.KeepAlive(p.Context())
			waiting := begin(p, func() (doclock.Lease, error) {
				return l.Acquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
			})
			time.Sleep(20 * time.Minute) // it polls seldom by now
			poll := net.Arm(faultnet.DelayReply, "find")
			<-poll.Fired()
			if during {
				ok(p, holder.Release(p.Context()))
				must(p, poll.Let())
			} else {
				must(p, poll.Let())
				synctest.Wait()
				ok(p, holder.Release(p.Context())) // of which this Locker doesn't hear
				p.mem.LoseReplies(1, locktest.Acquires)
				p.want(errOf(l.TryAcquire(p.within(time.Millisecond/2), doclock.ID(101), "write")), context.DeadlineExceeded)
			}
			begun := time.Now()
			p.granted(waiting)
			if took := time.Since(begun); took > time.Second {
				p.Errorf("granted after %v", took)
			}
		})
	}
}
