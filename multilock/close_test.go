package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type locker = *multilock.Locker

// Close ends the Wait of a ticket. Leases stay valid, and tickets keep their places: they
// can be renewed, confirmed and released.
func TestCloseLeavesLeasesAndTicketsUsable(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		holder := p.try(l, "read")
		ticket := p.enqueue(l, "write")
		call := begin(p, func() (doclock.Lease, error) { return ticket.Wait(p.bounded()) })
		p.queued(l, 1)
		p.rest(l)
		p.want(errOf(call.wait()), doclock.ErrClosed, doclock.ErrConflict)
		if n := len(p.entries("write")); n != 1 {
			p.Errorf("%d waiting entries", n)
		}
		ok(p, holder.Renew(p.Context()))
		p.release(holder)
		p.release(p.got(ticket.Confirm(p.Context())))
		p.wantEntries()
	})
}

// After Close a release still has the attempts of its acquire removed, by one command.
func TestReleaseAfterClose(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive())
		p.mem.LoseReplies(1, locktest.Acquires)
		lease := p.try(l, "write")
		p.rest(l)
		w.Take()
		p.release(lease)
		time.Sleep(time.Hour)
		if sent := w.Take(); len(sent) != 2 {
			p.Errorf("it sent %v, want a release and a removal", sent)
		}
	})
}

// Close names no entry of a release that ends after Close has waited. Here a waiter gets the
// lock at the moment of Close, and releases it. The scheduler decides which of them comes
// first, so the test tries it often.
func TestCloseBesideARelease(t *testing.T) {
	virtual(t, func(p *place) {
		for range 200 {
			l := p.plain(relations.ReadPreferring())
			holder := p.try(l, "write")
			next := begin(p, func() (_ struct{}, err error) {
				if lease, ended := l.Acquire(p.Context(), flowers, "write"); ended == nil {
					err = lease.Release(p.Context())
				}
				return
			})
			p.queued(l, 1)
			p.mem.Fail(1, mongo.CommandError{Code: 13}, locktest.Releases) // of the handoff: the waiter has to ask
			p.release(holder)
			p.rest(l)
			ok(p, errOf(next.wait()))
		}
		p.wantEntries()
	})
}

// Close repeats a removal whose request was lost, and names nothing.
func TestCloseRepeatsALostRemoval(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive())
		p.mem.LoseReplies(1, locktest.Acquires)
		p.want(errOf(l.TryAcquire(p.within(time.Millisecond/2), flowers, "write")), context.DeadlineExceeded)
		p.mem.LoseRequests(1, locktest.CleanUps)
		ok(p, l.Close(p.Context()))
		p.wantEntries()
	})
}

// What Close could not remove it names, and a later Close tries again.
func TestCloseAfterARefusedRemoval(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		p.mem.Delay(1, 2*time.Second, locktest.Acquires)
		p.mem.Fail(1<<30, mongo.CommandError{Code: 13, Name: "Unauthorized"}, locktest.CleanUps, locktest.Releases)
		p.want(errOf(l.TryAcquire(p.within(time.Second), flowers, "write")), context.DeadlineExceeded)
		if err := l.Close(p.Context()); err == nil || !strings.Contains(err.Error(), "may leave entries that nobody holds") || !strings.Contains(err.Error(), "Unauthorized") {
			p.Errorf("Close: %v", err)
		}
		p.mem.Fail(0, mongo.CommandError{})
		ok(p, l.Close(p.Context()))
		p.wantEntries()
	})
}

// What expires while its removal is under way Close doesn't name.
func TestCloseNamesNothingThatHasExpired(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive(), doclock.TTL(30*time.Second), doclock.AttemptTimeout(20*time.Second))
		p.mem.Delay(1<<30, time.Hour, locktest.CleanUps)
		p.mem.LoseReplies(1, locktest.Acquires)
		p.want(errOf(l.TryAcquire(p.within(time.Millisecond/2), flowers, "write")), context.DeadlineExceeded)
		time.Sleep(15 * time.Second)
		ctx, end := context.WithTimeout(p.Context(), 0)
		defer end()
		err := l.Close(ctx) // for an attempt, until the 35th second; the second removal is under way until the 40th
		if p.want(err, context.DeadlineExceeded); err != nil && strings.Contains(err.Error(), "may leave entries that nobody holds") {
			p.Errorf("Close: %v", err)
		}
		p.mem.Delay(0, 0)
		time.Sleep(time.Hour)
	})
}

// Close waits for a function, and has no error. Once Close's context has ended, the
// function's ends, and Close waits for the release.
func TestCloseWaitsForFunctions(t *testing.T) {
	virtual(t, func(p *place) {
		for name, work := range dos {
			for _, cut := range []bool{false, true} {
				l := p.plain(relations.Fair())
				begun, ended := make(chan struct{}), time.Minute
				call := begin(p, func() (_ any, err error) {
					return nil, work(p.Context(), l, func(ctx context.Context, _ doclock.Lease) error {
						close(begun)
						select {
						case <-ctx.Done():
							p.want(context.Cause(ctx), doclock.ErrClosed)
						case <-time.After(ended):
						}
						time.Sleep(2 * time.Second) // it needs some time to stop
						return nil
					})
				})
				wait(p, begun)
				ctx, took := p.Context(), ended+2*time.Second
				if cut {
					ctx, took = p.within(10*time.Second), 12*time.Second
				}
				at := time.Now()
				ok(p, l.Close(ctx))
				if is := time.Since(at); is != took {
					p.Errorf("%s, cut %v: Close took %v, want %v", name, cut, is, took)
				}
				p.wantEntries()
				ok(p, errOf(call.wait()))
			}
		}
	})
}

// A function that is granted the lock after Close has ended all functions finds its context
// ended.
func TestCloseEndsAFunctionThatBeginsLater(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		p.mem.Delay(1, time.Second, locktest.Acquires)
		call := begin(p, func() (any, error) {
			return nil, l.Do(p.Context(), flowers, "write", func(ctx context.Context, _ doclock.Lease) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
		time.Sleep(time.Second / 4)
		ok(p, l.Close(p.within(time.Second/4)))
		p.want(errOf(call.wait()), doclock.ErrClosed)
		p.wantEntries()
	})
}

// A function that ignores the end of its context is named after an AttemptTimeout more,
// and so is a lease that nobody has released.
func TestCloseNamesWhatItLeaves(t *testing.T) {
	virtual(t, func(p *place) {
		for name, work := range dos {
			l := p.plain(relations.Fair(), doclock.TTL(time.Hour), doclock.AttemptTimeout(5*time.Second))
			begun, end := make(chan struct{}), make(chan struct{})
			call := begin(p, func() (any, error) {
				return nil, work(p.Context(), l, func(context.Context, doclock.Lease) error { close(begun); <-end; return nil })
			})
			wait(p, begun)
			at := time.Now()
			err := l.Close(p.within(time.Second))
			if is := time.Since(at); is != 6*time.Second {
				p.Errorf("%s: Close took %v", name, is)
			}
			p.want(err, context.DeadlineExceeded)
			if !strings.Contains(err.Error(), "functions that have not ended") || !strings.Contains(err.Error(), `of "write" in document 1`) || strings.Contains(err.Error(), "nobody has released") {
				p.Errorf("%s: %v", name, err)
			}
			close(end)
			ok(p, errOf(call.wait()))
			ok(p, l.Close(p.Context()))
		}
		l := p.plain(relations.Fair(), doclock.ClockTolerance(time.Minute))
		lease := p.try(l, "write")
		until := p.entries("write")[0].Expires.UTC().Format("2006-01-02T15:04") // its seconds are far from a minute's end
		if err := l.Close(p.Context()); err == nil || !strings.Contains(err.Error(), "leases that nobody has released: "+lease.ID().String()+` of "write" in document 1 until `+until) {
			p.Errorf("Close beside a lease: %v", err)
		}
		p.release(lease)
		ok(p, l.Close(p.Context()))
	})
}

// Close inside a function of the same Locker is refused at once, also after the
// function's last write, and closes nothing.
func TestCloseInsideAFunctionIsRefused(t *testing.T) {
	virtual(t, func(p *place) {
		for _, work := range dos {
			l, other := p.locker(p.coll, relations.Fair()), p.locker(p.coll, relations.Fair(), doclock.Upsert())
			ok(p, work(p.bounded(), l, func(ctx context.Context, _ doclock.Lease) error {
				inner, cancel := context.WithCancel(ctx)
				defer cancel()
				p.want(l.Close(inner), doclock.ErrInvalidArgument)
				return other.Do(ctx, doclock.ID(3), "write", func(ctx context.Context, lease doclock.Lease) error {
					ok(p, lease.Release(ctx))
					p.want(l.Close(ctx), doclock.ErrInvalidArgument)
					p.want(other.Close(ctx), doclock.ErrInvalidArgument)
					return nil
				})
			}))
			p.release(p.try(l, "write"))
		}
	})
}

// A DoAll that has one lease and waits for another ends at once with the Close of the
// first one's Locker.
func TestCloseEndsTheWaitForOthers(t *testing.T) {
	virtual(t, func(p *place) {
		first, second := p.locker(p.coll, relations.Fair()), p.locker(p.coll, relations.Fair(), doclock.Upsert())
		holder := p.got(second.TryAcquire(p.Context(), doclock.ID(2), "write"))
		waiting := begin(p, func() (any, error) {
			return nil, multilock.DoAll(p.Context(), func(context.Context, multilock.Leases) error { p.Error("it ran"); return nil },
				first.Want(flowers, "write"), second.Want(doclock.ID(2), "write"))
		})
		p.eventually("it waits", func() bool { return second.Waiters(2) == 1 })
		at := time.Now()
		ok(p, first.Close(p.Context()))
		p.want(errOf(waiting.wait()), doclock.ErrNotAcquired, doclock.ErrClosed)
		if is := time.Since(at); is > 0 {
			p.Errorf("it took %v", is)
		}
		p.release(holder)
		p.wantEntries()
	})
}

// Close waits for a call that has its grant and decodes the document: what it has got is
// released, or named.
func TestCloseWaitsForADecoding(t *testing.T) {
	virtual(t, func(p *place) {
		calls := maps.Clone(asks)
		calls["Resume"] = func(l *multilock.Locker, ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
			return l.Resume(ctx, filter, p.detach(p.try(l, tag)), opts...)
		}
		for name, call := range calls {
			l := p.plain(relations.Exclusive())
			decoded := &slowDocument{}
			called := begin(p, func() (struct{}, error) {
				return struct{}{}, errOf(call(l, p.Context(), flowers, "write", doclock.Into(decoded)))
			})
			time.Sleep(time.Second)
			_ = l.Close(p.Context())
			if !decoded.done.Load() {
				p.Errorf("%s: Close has not waited", name)
			}
			p.want(errOf(called.wait()), doclock.ErrNotAcquired)
			time.Sleep(time.Minute) // the entry of the token expires
		}
	})
}

// slowDocument is a document whose decoding takes its time, and fails.
type slowDocument struct{ done atomic.Bool }

func (s *slowDocument) UnmarshalBSON([]byte) error {
	time.Sleep(5 * time.Second)
	s.done.Store(true)
	return errAway
}

// The error of a call that Close has ended, or that comes after it, names the Locker's
// collection; so does the cause of a function's context.
func TestErrClosedNamesItsCollection(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		namespace := p.coll.Database().Name() + "." + p.coll.Name()
		named := func(name string, err error) {
			if !errors.Is(err, doclock.ErrClosed) || !strings.Contains(err.Error(), namespace) {
				p.Errorf("%s: %v", name, err)
			}
		}
		var cause error
		working := begin(p, func() (struct{}, error) {
			return struct{}{}, l.Do(p.Context(), flowers, "write", func(ctx context.Context, _ doclock.Lease) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		})
		p.eventually("the function runs", func() bool { return len(p.entries()) == 1 })
		waiter := begin(p, func() (doclock.Lease, error) { return l.Acquire(p.Context(), flowers, "write") })
		p.queued(l, 1)
		ok(p, l.Close(p.within(time.Second)))
		named("a waiter", errOf(waiter.wait()))
		ok(p, errOf(working.wait()))
		named("the cause", cause)
		for name, ask := range asks {
			named(name, errOf(ask(l, p.Context(), flowers, "write")))
		}
	})
}

// Close tries for half a minute, and says what it leaves, as often as it is called. The
// clean-up goes on. Close comes during a command of the clean-up, or while the clean-up
// rests.
func TestCloseInAnOutageSaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rests, away time.Duration
		leaves      bool
	}{{0, 5 * time.Second, false}, {0, time.Hour, true}, {time.Minute, 5 * time.Second, false}, {time.Minute, time.Hour, true}} {
		t.Run(fmt.Sprint(c.rests, c.away), func(t *testing.T) {
			outage(t, func(o *pair) {
				l, err := multilock.New(o.coll, relations.Fair())
				must(o, err)
				o.mem.Fail(1<<30, mongo.CommandError{Code: 91}, locktest.CleanUps)
				for id := range 20 {
					o.lose(l, 10+id, doclock.TTL(24*time.Hour))
				}
				o.mem.Down(errAway)
				time.Sleep(c.rests)
				time.AfterFunc(c.away, func() {
					o.mem.Fail(0, mongo.CommandError{}) // until then a clean-up on its way is refused
					o.mem.Up()
				})
				begun := time.Now()
				err = l.Close(o.Context())
				if took := time.Since(begun); took > 31*time.Second {
					o.Errorf("it took %v", took)
				}
				if (err != nil) != c.leaves {
					o.Errorf("Close: %v", err)
				}
				if c.leaves {
					fault{errAway, []string{"doclock: Close may leave", `of "write" in document `, "and 17 more"}}.check(o, "Close", err)
				}
				if n := l.Leftovers(); (n > 0) != c.leaves {
					o.Errorf("%d are owed", n)
				}
				again := make(chan error)
				go func() { again <- l.Close(o.Context()) }()
				o.mem.Up()
				o.want(<-again)
				_, err = o.there.TryAcquire(o.Context(), doclock.ID(10), "write")
				o.want(err)
			})
		})
	}
}

// While Close waits, the same id may come to be owed in a second way. Close doesn't wait
// twice, and has a command sent that meets the second entry too.
func TestCloseWaitsOnceForWhatTwoWaysOwe(t *testing.T) {
	t.Parallel()
	for _, executed := range []bool{false, true} {
		t.Run(fmt.Sprintf("a command is executed between the two: %v", executed), func(t *testing.T) {
			outage(t, func(o *pair) {
				again, once := func() {}, sync.Once{}
				monitor := &driver.CommandMonitor{Succeeded: func(context.Context, *driver.CommandSucceededEvent) { once.Do(again) }}
				l := o.locker(o.Through(options.Client().SetMonitor(monitor)), relations.Fair())
				id := o.try(o.there, "write").ID()
				document, err := o.coll.FindOne(o.Context(), flowers).Raw()
				must(o, err)
				o.erase("write")
				owe, err := l.Owing(id)
				must(o, err)
				second := func() {
					o.Change(bson.M{"$set": bson.M{"lock": document.Lookup("lock")}})
					owe(time.Now())
				}
				if executed {
					again = second
					o.mem.Delay(1, time.Second, locktest.CleanUps) // Close has begun by then
				} else {
					o.mem.Down(errAway)
					time.AfterFunc(time.Second, func() {
						o.mem.Up()
						second()
					})
				}
				owe(time.Now())
				closed := make(chan error, 1)
				go func() { closed <- l.Close(o.Context()) }()
				select {
				case err := <-closed:
					ok(o, err)
				case <-time.After(time.Hour):
					o.Fatal("Close waits for what nobody does")
				}
				o.wantEntries()
			})
		})
	}
}

// Close asks again soon, however long what is owed has rested in trouble.
func TestCloseDoesNotRestAsLongAsTheTroubleLasted(t *testing.T) {
	t.Parallel()
	outage(t, func(o *pair) {
		l, err := multilock.New(o.coll, relations.Fair())
		must(o, err)
		o.mem.Fail(1<<30, conflicting, locktest.CleanUps)
		must(o, l.Owe(uuid.New(), time.Now().Add(time.Hour)))
		time.Sleep(10 * time.Minute)
		time.AfterFunc(5*time.Second, func() { o.mem.Fail(0, conflicting) })
		begun := time.Now()
		must(o, l.Close(o.Context()))
		if took := time.Since(begun); took > 7*time.Second {
			o.Errorf("it took %v", took)
		}
	})
}

// What a closed Locker still looks for in an outage rests without a goroutine: the test ends, and its bubble with it.
func TestWhatIsOwedAfterCloseHasNoGoroutine(t *testing.T) {
	virtual(t, func(p *place) {
		l, err := multilock.New(p.coll, relations.Fair())
		must(p, err)
		p.mem.Down(errAway)
		must(p, l.Owe(uuid.New(), time.Now().Add(time.Hour)))
		p.want(l.Close(p.Context()), errAway)
	})
}
