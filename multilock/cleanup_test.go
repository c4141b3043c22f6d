package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// In these tests the server executes an attempt after its acquire has ended. No
// entry expires while a test runs.

// removed waits until the late entry is gone, and only these leases' are left.
func (l *pair) removed(leases ...doclock.Lease) {
	l.Helper()
	l.eventually("the late entry is removed", func() bool { return len(l.entries()) == len(leases) })
	l.wantEntries(leases...)
}

// An attempt that is executed near the end of its entry's life is removed, too: it is owed until then.
func TestAnAttemptAtTheEndOfItsLifeIsRemoved(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *pair) {
		other := l.try(l.there, "write")
		held := l.net.Arm(faultnet.Hold, "findAndModify")
		l.want(errOf(l.here.TryAcquire(l.Context(), flowers, "write")), doclock.ErrConflict)
		l.release(other)
		time.Sleep(50 * time.Minute) // of an hour
		must(l, held.Let())
		time.Sleep(15 * time.Minute)
		l.wantEntries()
	})
}

// An acquire was refused, or given up, while an earlier attempt was under way.
func TestALateAttemptOfARefusedAcquireLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		for _, atClose := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				lately(t, relations.Exclusive(), func(l *pair) {
					other := l.try(l.there, "write")
					held := l.net.Arm(faultnet.Hold, "findAndModify")
					ctx, cancel := context.WithCancel(l.Context())
					call := begin(l, func() (struct{}, error) { return struct{}{}, errOf(ask(l.here, ctx, flowers, "write")) })
					l.eventually("the second attempt is refused", func() bool { return l.watch.Count() >= 2 })
					if name == "Acquire" || name == "Do" { // which wait
						l.queued(l.here, 1)
						cancel()
					}
					l.want(errOf(call.wait()), doclock.ErrConflict)
					cancel()
					l.release(other)
					must(l, held.Let())
					if atClose {
						l.rest(l.here)
						l.wantEntries()
					}
					l.removed()
				})
			})
		}
	}
}

// An acquire was granted by its second attempt, and released. Or its waiting entry was
// cancelled, or pruned.
func TestALateAttemptLeavesNoEntry(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*pair){
		"cancelled": func(l *pair) { must(l, l.enqueue(l.here, "write").Cancel(l.Context())) },
		"lost": func(l *pair) {
			ticket := l.enqueue(l.here, "write")
			l.erase("write")
			l.want(errOf(ticket.Confirm(l.bounded())), doclock.ErrLost)
		},
	}
	for name, handoff := range handoffs {
		ends[name] = func(l *pair) { must(l, handoff.release(l.try(l.here, "write"))) }
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			lately(t, relations.Fair(), func(l *pair) {
				var others []doclock.Lease
				if _, released := handoffs[name]; !released {
					others = append(others, l.try(l.there, "read"))
				}
				held := l.net.Arm(faultnet.Hold, "findAndModify")
				end(l)
				l.wantEntries(others...)
				must(l, held.Let())
				l.removed(others...)
			})
		})
	}
}

// A handoff whose reply was lost has entered its successor, a reader. Before the
// successor asks, another reader of its process has an entry that can be shared.
func TestRule15ASuccessorOfUnknownOutcomeLeavesNoEntryBesideTheSharedOne(t *testing.T) {
	t.Parallel()
	lately(t, relations.WritePreferring(), func(l *pair) {
		w := l.try(l.here, "write")
		waits := acquire(l, l.bounded(), l.here, "read")
		l.queued(l.here, 1)
		l.net.Arm(faultnet.LoseReply, "findAndModify") // the handoff's
		slow := l.net.Arm(faultnet.DelayReply, "findAndModify")
		released := begin(l, func() (struct{}, error) { return struct{}{}, w.Release(context.Background()) })
		wait(l, slow.Fired())
		if n := len(l.entries("read")); n != 1 {
			l.Fatalf("%d readers: it was not handed over", n)
		}
		other := l.try(l.here, "read")
		must(l, slow.Let())
		ok(l, errOf(released.wait()))
		lease := l.granted(waits)
		if lease.ID() == other.ID() {
			l.Error("it has an entry of its own, and joined another's")
		}
		l.release(lease)
		l.release(other)
		l.wantEntries()
	}, doclock.ShareInProcess("read"))
}

// An attempt that no server will execute costs few clean-up commands, and they
// end.
func TestTheCleanUpAfterALostAttemptEnds(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *pair) {
		l.try(l.there, "write")
		l.net.Arm(faultnet.LoseRequest, "findAndModify")
		l.want(errOf(l.here.TryAcquire(l.bounded(), flowers, "write", doclock.TTL(3*time.Second))), doclock.ErrConflict)
		l.eventually("the id is forgotten", func() bool { return l.here.Leftovers() == 0 })
		const acquires, cleanUps = 2, 8 // at 0, 50, 150, 350, 750, 1550, 3150 ms, and at the end
		if n := l.watch.Count(); n > acquires+cleanUps {
			l.Errorf("%d commands", n)
		}
	}, doclock.TTL(time.Second), waitTTL(time.Second), doclock.ClockTolerance(0))
}

// The ids of one document and tag are removed together.
func TestACleanUpIsOneCommandForMany(t *testing.T) {
	t.Parallel()
	lately(t, relations.Fair(), func(l *pair) {
		other := l.try(l.there, "read")
		var tickets []*multilock.Ticket
		for range 20 {
			tickets = append(tickets, l.enqueue(l.here, "write"))
		}
		l.net.Delay(time.Second)
		l.watch.Take()
		var calls []*pending[struct{}]
		for _, ticket := range tickets {
			calls = append(calls, begin(l, func() (struct{}, error) { return struct{}{}, ticket.Cancel(l.bounded()) }))
		}
		for _, call := range calls {
			ok(l, errOf(call.wait()))
		}
		if n := l.watch.Count(); n > 2 { // the first one's; the others gather
			l.Errorf("%d commands removed them", n)
		}
		l.wantEntries(other)
	})
}

// A successor was refused, and a duplicate of its acquire is executed late. So
// its entry waits in the document, and neither the successor nor the holder that
// releases knows. The successor must use that place, or remove it.
func TestASuccessorThatALateAcquireHasEntered(t *testing.T) {
	t.Parallel()
	rules := relations.Rules{
		"late": {"slow": {Kind: relations.Cooperative}, "fast": {Kind: relations.Assertive}},
		"slow": {},
		"fast": {},
	}
	for name, stays := range map[string]bool{"stays": true, "gives up": false} {
		virtually(t, name, func(p *place) {
			coll, net := p.faulty()
			l := p.locker(coll, rules)
			p.try(p.locker(p.coll, rules, doclock.TTL(time.Second), doclock.ClockTolerance(0)), "slow")
			fast := p.try(l, "fast")
			ctx, cancel := context.WithCancel(p.Context())
			defer cancel()
			duplicate := net.Arm(faultnet.Repeat, "findAndModify")
			successor := acquire(p, ctx, l, "late")
			p.queued(l, 1)
			time.Sleep(1200 * time.Millisecond) // "slow" has crashed
			must(p, duplicate.Let())
			if len(p.entries("late")) != 1 {
				p.Fatal("the duplicate has not entered")
			}
			handoff := net.Arm(faultnet.DelayReply, "findAndModify")
			released := begin(p, func() (struct{}, error) { return struct{}{}, fast.Release(p.Context()) })
			wait(p, handoff.Fired())
			if !stays {
				cancel()
				if _, err := successor.wait(); err == nil {
					p.Error("granted, though it gave up")
				}
			}
			must(p, handoff.Let())
			ok(p, errOf(released.wait()))
			if stays {
				p.release(p.granted(successor))
			}
			p.rest(l)
			if left := p.entries("late", "fast"); len(left) > 0 {
				p.Errorf("left behind: %+v", left)
			}
		})
	}
}

// In these tests the server is away, in virtual time, while entries that nobody holds
// are to be removed.

var errAway = errors.New("dial tcp: no route to host")

// lose has an acquire of a caller who leaves executed, and its reply lost. It makes the
// document if there is none.
func (l *pair) lose(of *multilock.Locker, id int, opts ...doclock.AcquireOption) {
	l.Helper()
	if _, err := l.coll.InsertOne(l.Context(), doclock.ID(id)); !mongo.IsDuplicateKeyError(err) {
		must(l, err)
	}
	l.mem.LoseReplies(1, locktest.Acquires)
	l.want(errOf(of.TryAcquire(l.within(time.Millisecond/2), doclock.ID(id), "write", opts...)), doclock.ErrNotAcquired)
	time.Sleep(time.Millisecond) // until the connection breaks
}

// free reports whether another program can have the document.
func (l *pair) free() bool {
	l.Helper()
	lease, err := l.there.TryAcquire(l.Context(), flowers, "write")
	if errors.Is(err, doclock.ErrConflict) {
		return false
	}
	l.release(l.got(lease, err))
	return true
}

// downAtDecode is a document that can't be decoded.
type downAtDecode struct{ down func() }

func (d *downAtDecode) UnmarshalBSON([]byte) error {
	d.down()
	return errAway
}

// What an acquire without a lease leaves is removed within a second after an outage,
// or its life is over by then.
func TestWhatIsOwedOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	lives := map[string]struct {
		life   time.Duration
		option doclock.AcquireOption
	}{
		"TTL":         {40 * time.Second, doclock.TTL(40 * time.Second)},
		"HoldAtLeast": {time.Hour, doclock.HoldAtLeast(time.Hour)},
	}
	for name, owe := range map[string]func(o *pair, down func(), opt doclock.AcquireOption){
		"a lost reply, and the caller has left": func(o *pair, down func(), opt doclock.AcquireOption) {
			o.lose(o.here, 1, opt)
			down()
		},
		"a lost reply of any filter": func(o *pair, down func(), opt doclock.AcquireOption) {
			o.mem.LoseReplies(1, locktest.Acquires)
			down()
			o.want(errOf(o.here.TryAcquire(o.Context(), byName, "write", opt)), doclock.ErrNotAcquired)
		},
		"a grant for a caller who has left": func(o *pair, down func(), opt doclock.AcquireOption) {
			o.mem.Delay(1, 5*time.Millisecond, locktest.Acquires)
			time.AfterFunc(5*time.Millisecond, down) // the answer is on its way
			_, _ = o.here.TryAcquire(o.within(time.Millisecond), flowers, "write", opt)
		},
		"a document that can't be decoded": func(o *pair, down func(), opt doclock.AcquireOption) {
			o.want(errOf(o.here.TryAcquire(o.Context(), flowers, "write", opt, doclock.Into(&downAtDecode{down}))), errAway)
		},
		"the first of several, of which another can't be decoded": func(o *pair, down func(), opt doclock.AcquireOption) {
			_, err := multilock.AcquireAll(o.Context(), o.here.Want(doclock.ID(1), "write", opt),
				o.here.Want(doclock.ID(2), "write", opt, doclock.Into(&downAtDecode{down})))
			o.want(err, errAway)
		},
		"a cancelled ticket that was granted": func(o *pair, down func(), opt doclock.AcquireOption) {
			reader := o.try(o.there, "read")
			ticket := o.enqueue(o.here, "write", opt)
			o.release(reader)
			o.mem.Delay(1, 5*time.Millisecond)
			_, _ = ticket.Confirm(o.within(time.Millisecond))
			time.Sleep(10 * time.Millisecond)
			down()
			o.want(ticket.Cancel(o.within(time.Millisecond)), doclock.ErrOutcomeUnknown)
		},
	} {
		for term, of := range lives {
			for _, away := range []time.Duration{4 * time.Second, time.Minute} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, term, away), func(t *testing.T) {
					outage(t, func(o *pair) {
						began := time.Now()
						owe(o, func() { o.mem.Down(errAway) }, of.option)
						time.Sleep(time.Until(began.Add(away)))
						o.mem.Up()
						time.Sleep(1600 * time.Millisecond) // a pause of the clean-up, and one of the driver
						if !o.free() {
							o.Errorf("it keeps others out %v after an outage of %v", time.Since(began)-away, away)
						}
						time.Sleep(of.life)
						if n := o.here.Leftovers(); n != 0 {
							o.Errorf("%d ids are still owed", n)
						}
						if failed := o.heard.of(doclock.EventCleanUpFailed); len(failed) > 0 && away < of.life {
							o.Errorf("clean-ups have failed: %v", failed)
						}
					})
				})
			}
		}
	}
}

// The first command of the Locker that is answered wakes the clean-up: what the
// document owes doesn't hold the slots of its acquires.
func TestTheFirstAnswerWakesTheCleanUp(t *testing.T) {
	t.Parallel()
	outage(t, func(o *pair) {
		for range multilock.MostPerDocument {
			o.mem.Delay(1, 2*time.Millisecond, locktest.Acquires)
			_, _ = o.here.TryAcquire(o.within(time.Millisecond), flowers, "read", doclock.TTL(time.Hour))
		}
		time.Sleep(time.Millisecond)
		o.mem.Down(errAway)
		time.Sleep(20 * time.Second)
		o.mem.Up()
		back := time.Now()
		for _, id := range []int{2, 1} {
			lease := o.got(o.here.Acquire(o.Context(), doclock.ID(id), "write"))
			if took := time.Since(back); took > 100*time.Millisecond {
				o.Errorf("document %d: after %v", id, took)
			}
			o.release(lease)
		}
	})
}

// However much is owed, an outage costs few goroutines and no commands, and all is
// removed at once after it.
func TestLeftoversWaitTogether(t *testing.T) { // alone: it counts goroutines
	outage(t, func(o *pair) {
		const many = 500
		coll, w := o.watched()
		l := o.locker(coll, relations.Fair(), doclock.TTL(time.Hour))
		o.mem.Fail(1<<30, overloaded, locktest.CleanUps)
		for i := range many {
			o.lose(l, 10+i)
		}
		o.mem.Down(errAway)
		synctest.Wait() // a clean-up on its way is refused
		o.mem.Fail(0, mongo.CommandError{})
		time.Sleep(40 * time.Second) // as long as an acquire waits for the removal of what its caller has left
		if n := l.Leftovers(); n != many {
			o.Fatalf("%d are owed", n)
		}
		w.Take()
		if n := runtime.NumGoroutine(); n > many/2 {
			o.Errorf("%d goroutines", n)
		}
		time.Sleep(time.Minute)
		if sent := w.Take(); len(sent) > 0 {
			o.Errorf("%d commands", len(sent))
		}
		o.mem.Up()
		time.Sleep(2100 * time.Millisecond) // a pause of the clean-up, and those of the driver
		if n := l.Leftovers(); n != 0 || w.Count() > many {
			o.Errorf("%d are owed after %d commands", n, w.Count())
		}
	})
}

// A waiting entry that another client has removed is not owed any more.
func TestAnEntryThatAnotherRemovedIsNotOwed(t *testing.T) {
	t.Parallel()
	outage(t, func(o *pair) {
		o.try(o.there, "read")
		ticket := o.enqueue(o.here, "write")
		lock, err := admin.Inspect(o.Context(), o.coll, flowers)
		must(o, err)
		_, err = admin.Break(o.Context(), o.coll, lock.Entries[1])
		must(o, err)
		must(o, ticket.Cancel(o.Context()))
		time.Sleep(time.Second)
		if n := o.here.Leftovers(); n != 0 {
			o.Errorf("%d ids are owed", n)
		}
	})
}

// A clean-up that the server refuses has one event, and goes on: rights come back.
func TestARefusedCleanUpGoesOn(t *testing.T) {
	t.Parallel()
	outage(t, func(o *pair) {
		o.mem.Fail(1<<30, mongo.CommandError{Code: 13, Name: "Unauthorized"}, locktest.CleanUps)
		o.lose(o.here, 1, doclock.TTL(time.Hour))
		time.Sleep(20 * time.Minute)
		o.mem.Fail(0, mongo.CommandError{})
		time.Sleep(2 * time.Minute) // the longest rest
		if !o.free() || o.here.Leftovers() != 0 {
			o.Errorf("%d ids are owed", o.here.Leftovers())
		}
		if failed := o.heard.of(doclock.EventCleanUpFailed); len(failed) != 1 || failed[0].DocumentID.AsInt64() != 1 || failed[0].Tag != "write" || failed[0].LeaseID == uuid.Nil || driverError(failed[0].Err) == nil {
			o.Errorf("clean-ups have failed: %+v", failed)
		}
	})
}

// A caller who waits for a clean-up gets its answer after 30 seconds, also while the clean-up rests for longer.
func TestACleanUpIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	for range 10 { // the rests are random
		outage(t, func(o *pair) {
			o.mem.Fail(1<<30, conflicting, locktest.CleanUps)
			begun, answered := time.Now(), make(chan error)
			l := o.plain(relations.Fair(), doclock.TTL(time.Hour))
			must(o, l.Ask(func(err error) { answered <- err }))
			err := <-answered
			if took := time.Since(begun); took > 31*time.Second || driverError(err) == nil {
				o.Errorf("after %v: %v", took, err)
			}
			o.mem.Fail(0, mongo.CommandError{})
		})
	}
}

// What two ways owe is owed until the later end of the two, whichever comes first.
func TestALeftoverHasTheLongerLife(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string][2]time.Duration{"the first is longer": {0, 20 * time.Second}, "the second": {20 * time.Second, 0}} {
		t.Run(name, func(t *testing.T) {
			outage(t, func(o *pair) {
				life, err := o.here.Life(flowers, "write")
				must(o, err)
				id, began := uuid.New(), time.Now()
				o.mem.Down(errAway)
				must(o, o.here.Owe(id, began.Add(-ago[0])))
				must(o, o.here.Owe(id, began.Add(-ago[1])))
				time.Sleep(life - 2*time.Second)
				if n := o.here.Leftovers(); n != 1 {
					o.Errorf("%d are owed before the end", n)
				}
				time.Sleep(4 * time.Second)
				if n := o.here.Leftovers(); n != 0 {
					o.Errorf("%d are owed after the end", n)
				}
			})
		})
	}
}

// An id that two ways owe may appear twice, and is removed twice.
func TestALeftoverOfTwoWaysIsRemovedTwice(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		id := p.try(p.plain(relations.Fair()), "write").ID()
		document, err := p.coll.FindOne(p.Context(), flowers).Raw()
		must(p, err)
		p.erase("write")
		for range 2 {
			must(p, l.Owe(id, time.Now()))
		}
		for range 2 { // late attempts
			p.Change(bson.M{"$set": bson.M{"lock": document.Lookup("lock")}})
			time.Sleep(2 * time.Second)
			p.wantEntries()
		}
	})
}

// A command has 500 ids at most, however many are owed.
func TestACleanUpHasABoundOnItsIDs(t *testing.T) {
	virtual(t, func(p *place) {
		coll, sent := p.watched()
		l := p.locker(coll, relations.Fair())
		p.mem.Down(errAway)
		ids := make([]uuid.UUID, 1200)
		for i := range ids {
			ids[i] = uuid.New()
			must(p, l.Owe(ids[i], time.Now()))
		}
		p.mem.Up()
		time.Sleep(10 * time.Second)
		most, commands := 0, 0
		for _, command := range sent.All() {
			n := 0
			for _, id := range ids {
				if bytes.Contains(command.Lookup("query").Value, id[:]) {
					n++
				}
			}
			most, commands = max(most, n), commands+min(n, 1)
		}
		if most != 500 || commands < 3 {
			p.Errorf("%d commands with up to %d ids", commands, most)
		}
	})
}

// While commands get no answer, what is owed rests for a second at most: after the
// trouble it is removed as soon.
func TestWhatIsOwedRestsForASecondAtMost(t *testing.T) {
	t.Parallel()
	outage(t, func(o *pair) {
		o.mem.Fail(1<<30, mongo.CommandError{Code: 8000, Message: "nobody knows"}, locktest.CleanUps) // the first one too
		o.lose(o.here, 1, doclock.TTL(time.Hour))
		time.Sleep(10 * time.Minute)
		if o.free() {
			o.Error("nothing is owed in the trouble")
		}
		o.mem.Fail(0, mongo.CommandError{})
		time.Sleep(1100 * time.Millisecond)
		if !o.free() {
			o.Error("it keeps others out a second after the trouble")
		}
	})
}

// While the commands to one document get no answer, they cost as much for many ids as for
// one, whenever each of them came.
func TestManyThatAreOwedRestTogether(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]mongo.CommandError{"write conflicts": conflicting, "a step-down": stepsDown} {
		t.Run(name, func(t *testing.T) {
			commands := func(ids int) (n int) {
				outage(t, func(o *pair) {
					coll, sent := o.watched()
					l := o.locker(coll, relations.Fair())
					o.mem.Fail(1<<30, refusal, locktest.CleanUps)
					for range ids {
						must(o, l.Owe(uuid.New(), time.Now().Add(time.Hour)))
						time.Sleep(300 * time.Millisecond)
					}
					time.Sleep(time.Minute - time.Duration(ids)*300*time.Millisecond)
					n = sent.Count()
					o.mem.Fail(0, refusal)
				})
				return n
			}
			if one, many := commands(1), commands(50); many > one*5/4 { // pauses are drawn
				t.Errorf("%d commands for one id, %d for fifty", one, many)
			}
		})
	}
}

// However long an id rests in trouble, one that comes to be owed in the same document waits for ten seconds at most.
func TestANewIDDoesNotRestAsLongAsOthers(t *testing.T) {
	t.Parallel()
	outage(t, func(o *pair) {
		coll, sent := o.watched()
		l := o.locker(coll, relations.Fair())
		o.mem.Fail(1<<30, conflicting, locktest.CleanUps)
		must(o, l.Owe(uuid.New(), time.Now().Add(time.Hour)))
		time.Sleep(5 * time.Minute)
		for sent.Take(); sent.Count() == 0; { // the rest after this command takes a minute or more
			time.Sleep(time.Second)
		}
		o.mem.Fail(0, conflicting)
		sent.Take()
		must(o, l.Owe(uuid.New(), time.Now()))
		time.Sleep(10*time.Second + time.Millisecond)
		if n := sent.Count(); n == 0 {
			o.Error("nothing is sent")
		}
	})
}

// A lost acquire's entry is looked for as long as it could live: for its own
// TTL, for the waiting TTL, or until the time of HoldAtLeast.
func TestRule22TheCleanUpLastsForTheLongestLife(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair(), doclock.TTL(10*time.Second), waitTTL(20*time.Second), doclock.ClockTolerance(time.Second))
	for name, c := range map[string]struct {
		opts []doclock.AcquireOption
		life time.Duration
	}{
		"the Locker's terms": {nil, 21 * time.Second},
		"a short TTL":        {[]doclock.AcquireOption{doclock.TTL(2 * time.Second)}, 21 * time.Second},
		"a long TTL":         {[]doclock.AcquireOption{doclock.TTL(time.Hour)}, time.Hour + time.Second},
		"hold at least":      {[]doclock.AcquireOption{doclock.HoldAtLeast(time.Minute)}, time.Minute + time.Second},
	} {
		if life, err := l.Life(flowers, "write", c.opts...); life != c.life || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, life, err, c.life)
		}
	}
}

// abandonWaits has n waiters of a client give up. A transaction has locked their documents, from 101 on.
func (s *shop) abandonWaits(c *client, n int) {
	s.Helper()
	holders := s.client(relations.Semaphore(1), doclock.TTL(time.Minute))
	var ids []int
	var all sync.WaitGroup
	for i := range n {
		id := 101 + i
		ids = append(ids, id)
		must(s, errOf(s.mem.Collection("categories").InsertOne(s.Context(), doclock.ID(id))))
		must(s, errOf(holders.locks.TryAcquire(s.Context(), doclock.ID(id), "slot")))
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
			defer cancel()
			_, err := c.locks.Acquire(ctx, doclock.ID(id), "slot")
			if !errors.Is(err, context.DeadlineExceeded) {
				s.Error(err)
			}
		})
	}
	time.Sleep(time.Second)
	s.Cleanup(s.block(ids...))
	all.Wait()
}

// Close waits for what is owed for 30 s at most, however many documents a transaction has locked, and names what it leaves.
func TestCloseWaitsForLockedDocumentsInTime(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10, 30} {
		inShop(t, func(s *shop) {
			c := s.client(relations.Semaphore(1), doclock.TTL(time.Minute))
			s.abandonWaits(c, n)
			begun := time.Now()
			err := c.locks.Close(s.Context())
			if took := time.Since(begun); took > engine.DefaultRetryLimit+time.Second {
				s.Errorf("with %d locked documents it took %v", n, took)
			}
			if err == nil || !strings.Contains(err.Error(), "may leave entries that nobody holds") || n > 3 && !strings.Contains(err.Error(), fmt.Sprintf("and %d more", n-3)) {
				s.Errorf("%d locked documents: %v", n, err)
			}
		})
	}
}
