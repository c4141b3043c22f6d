package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// In these tests the server is away, in virtual time, while entries that nobody holds
// are to be removed.

var errAway = errors.New("dial tcp: no route to host")

// outage has two programs: here owes, and there meets what it owes.
type outage struct {
	*place
	heard       *heard // by here's observer
	here, there *multilock.Locker
}

func virtualOutage(t *testing.T, test func(o *outage)) {
	t.Helper()
	inBubble(t, func(p *place) {
		heard, hear := p.heard()
		test(&outage{p, heard, p.plain(relations.Fair(), hear), p.plain(relations.Fair())})
		p.mem.Up()
	})
}

// lose has an acquire of a caller who leaves executed, and its reply lost. It makes the
// document if there is none.
func (o *outage) lose(l *multilock.Locker, id int, opts ...doclock.AcquireOption) {
	o.Helper()
	if _, err := o.coll.InsertOne(o.Context(), doclock.ID(id)); !mongo.IsDuplicateKeyError(err) {
		must(o, err)
	}
	o.mem.LoseReplies(1, locktest.Acquires)
	o.want(errOf(l.TryAcquire(o.within(time.Millisecond/2), doclock.ID(id), "write", opts...)), doclock.ErrNotAcquired)
	time.Sleep(time.Millisecond) // until the connection breaks
}

// free reports whether another program can have the document.
func (o *outage) free() bool {
	o.Helper()
	lease, err := o.there.TryAcquire(o.Context(), flowers, "write")
	if errors.Is(err, doclock.ErrConflict) {
		return false
	}
	o.release(o.got(lease, err))
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
		"TTL":         {5 * time.Minute, doclock.TTL(5 * time.Minute)},
		"HoldAtLeast": {20 * time.Hour, doclock.HoldAtLeast(20 * time.Hour)},
	}
	for name, owe := range map[string]func(o *outage, down func(), opt doclock.AcquireOption){
		"a lost reply, and the caller has left": func(o *outage, down func(), opt doclock.AcquireOption) {
			o.lose(o.here, 1, opt)
			down()
		},
		"a lost reply of any filter": func(o *outage, down func(), opt doclock.AcquireOption) {
			o.mem.LoseReplies(1, locktest.Acquires)
			down()
			o.want(errOf(o.here.TryAcquire(o.Context(), byName, "write", opt)), doclock.ErrNotAcquired)
		},
		"a grant for a caller who has left": func(o *outage, down func(), opt doclock.AcquireOption) {
			o.mem.Delay(1, 5*time.Millisecond, locktest.Acquires)
			time.AfterFunc(5*time.Millisecond, down) // the answer is on its way
			_, _ = o.here.TryAcquire(o.within(time.Millisecond), flowers, "write", opt)
		},
		"a document that can't be decoded": func(o *outage, down func(), opt doclock.AcquireOption) {
			o.want(errOf(o.here.TryAcquire(o.Context(), flowers, "write", opt, doclock.Into(&downAtDecode{down}))), errAway)
		},
		"the first of several, of which another can't be decoded": func(o *outage, down func(), opt doclock.AcquireOption) {
			_, err := multilock.AcquireAll(o.Context(), o.here.Want(doclock.ID(1), "write", opt),
				o.here.Want(doclock.ID(2), "write", opt, doclock.Into(&downAtDecode{down})))
			o.want(err, errAway)
		},
		"a cancelled ticket that was granted": func(o *outage, down func(), opt doclock.AcquireOption) {
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
			for _, away := range []time.Duration{4 * time.Second, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, term, away), func(t *testing.T) {
					virtualOutage(t, func(o *outage) {
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
	virtualOutage(t, func(o *outage) {
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
	virtualOutage(t, func(o *outage) {
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
		time.Sleep(10 * time.Second)
		if n := l.Leftovers(); n != many {
			o.Fatalf("%d are owed", n)
		}
		w.Take()
		if n := runtime.NumGoroutine(); n > many/2 {
			o.Errorf("%d goroutines", n)
		}
		time.Sleep(10 * time.Minute)
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
	virtualOutage(t, func(o *outage) {
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

// Where no server answers for long, the waiters of a document fail together: the first asks for all.
func TestWaitersOfADocumentFailTogether(t *testing.T) {
	t.Parallel()
	virtualOutage(t, func(o *outage) {
		o.try(o.there, "write", doclock.TTL(time.Hour))
		locks := o.plain(relations.Exclusive())
		ended := make(chan error)
		for range 4 {
			go func() { ended <- errOf(locks.Acquire(o.Context(), flowers, "write")) }()
		}
		time.Sleep(10 * time.Second)
		o.mem.Down(errAway)
		begun := time.Now()
		for range 4 {
			o.want(<-ended, doclock.ErrNotAcquired)
		}
		if took := time.Since(begun); took > engine.DefaultRetryLimit+engine.DefaultTTL/3+2*time.Second {
			o.Errorf("it took %v", took)
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
			virtualOutage(t, func(o *outage) {
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

// A clean-up that the server refuses has one event, and goes on: rights come back.
func TestARefusedCleanUpGoesOn(t *testing.T) {
	t.Parallel()
	virtualOutage(t, func(o *outage) {
		o.mem.Fail(1<<30, mongo.CommandError{Code: 13, Name: "Unauthorized"}, locktest.CleanUps)
		o.lose(o.here, 1, doclock.TTL(time.Hour))
		time.Sleep(time.Minute)
		o.mem.Fail(0, mongo.CommandError{})
		time.Sleep(time.Minute)
		if !o.free() || o.here.Leftovers() != 0 {
			o.Errorf("%d ids are owed", o.here.Leftovers())
		}
		if failed := o.heard.of(doclock.EventCleanUpFailed); len(failed) != 1 || failed[0].DocumentID.AsInt64() != 1 || failed[0].Tag != "write" || failed[0].LeaseID == uuid.Nil || driverError(failed[0].Err) == nil {
			o.Errorf("clean-ups have failed: %+v", failed)
		}
	})
}

// What two ways owe is owed until the later end of the two, whichever comes first.
func TestALeftoverHasTheLongerLife(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string][2]time.Duration{"the first is longer": {0, 20 * time.Second}, "the second": {20 * time.Second, 0}} {
		t.Run(name, func(t *testing.T) {
			virtualOutage(t, func(o *outage) {
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

// While Close waits, the same id may come to be owed in a second way. Close doesn't wait
// twice, and has a command sent that meets the second entry too.
func TestCloseWaitsOnceForWhatTwoWaysOwe(t *testing.T) {
	t.Parallel()
	for _, executed := range []bool{false, true} {
		t.Run(fmt.Sprintf("a command is executed between the two: %v", executed), func(t *testing.T) {
			virtualOutage(t, func(o *outage) {
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
	virtualOutage(t, func(o *outage) {
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
				virtualOutage(t, func(o *outage) {
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
			if one, many := commands(1), commands(50); many > one+3 { // pauses are drawn
				t.Errorf("%d commands for one id, %d for fifty", one, many)
			}
		})
	}
}

// However long an id rests in trouble, one that comes to be owed in the same document waits for ten seconds at most.
func TestANewIDDoesNotRestAsLongAsOthers(t *testing.T) {
	t.Parallel()
	virtualOutage(t, func(o *outage) {
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

// Close asks again soon, however long what is owed has rested in trouble.
func TestCloseDoesNotRestAsLongAsTheTroubleLasted(t *testing.T) {
	t.Parallel()
	virtualOutage(t, func(o *outage) {
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
