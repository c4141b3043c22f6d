package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// "None is free" is the server's word. A claim that got no answer doesn't say it.
func TestAClaimWithoutAnAnswerSaysNotThatNoneIsFree(t *testing.T) {
	t.Parallel()
	slow := func(p *place) { p.mem.Delay(100, 5*time.Second) }
	away := func(p *place) { p.mem.Down(errors.New("no cable")) }
	refuses := func(code int32) func(*place) {
		return func(p *place) { p.mem.Fail(100, mongo.CommandError{Code: code, Message: "?"}) }
	}
	try := func(bounds func(context.Context) (context.Context, context.CancelFunc)) func(context.Context, *multilock.Locker, []doclock.AcquireOption) error {
		return func(ctx context.Context, l *multilock.Locker, opts []doclock.AcquireOption) error {
			ctx, cancel := bounds(ctx)
			defer cancel()
			return errOf(l.TryAcquire(ctx, pendingJobs, "write", opts...))
		}
	}
	within := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	leaves := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	}
	waits := func(d time.Duration) func(context.Context, *multilock.Locker, []doclock.AcquireOption) error {
		return func(ctx context.Context, l *multilock.Locker, opts []doclock.AcquireOption) error {
			return l.Do(ctx, pendingJobs, "write", func(context.Context, doclock.Lease) error { return nil }, append(opts, doclock.MaxWait(d))...)
		}
	}
	closes := func(ctx context.Context, l *multilock.Locker, opts []doclock.AcquireOption) error {
		time.AfterFunc(time.Second, func() { _ = l.Close(context.Background()) })
		return errOf(l.Acquire(ctx, pendingJobs, "write", opts...))
	}
	for name, c := range map[string]struct {
		trouble func(*place)
		call    func(context.Context, *multilock.Locker, []doclock.AcquireOption) error
	}{
		"slow, and a context of 1 s":          {slow, try(within(time.Second))},
		"slow, and the caller leaves":         {slow, try(leaves)},
		"slow, MaxWait of 1 s":                {slow, waits(time.Second)},
		"slow, MaxWait of 0":                  {slow, waits(0)},
		"slow, and closed":                    {slow, closes},
		"away, MaxWait of 1 s":                {away, waits(time.Second)},
		"away, MaxWait of 0":                  {away, waits(0)},
		"away for longer than any repeat":     {away, try(within(time.Hour))},
		"refused":                             {refuses(13), try(within(time.Hour))},
		"an unknown code, a context of 2 s":   {refuses(424242), try(within(2 * time.Second))},
		"an unknown code, and no other bound": {refuses(424242), try(within(time.Hour))},
	} {
		for _, after := range []int{0, 1} { // answers
			virtually(t, fmt.Sprintf("%s, after %d answers", name, after), func(p *place) {
				p.jobs(10)
				var answers atomic.Int32
				l := p.plain(relations.Exclusive(), doclock.ShardKey("state"))
				if after == 0 {
					c.trouble(p)
				} else { // the first command finds nothing, as some servers tell the loser of a race
					coll, net := p.faulty()
					net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
						answers.Add(1)
						c.trouble(p)
						return bson.M{"ok": 1, "value": nil}
					})
					l = p.locker(coll, relations.Exclusive())
				}
				err := c.call(p.Context(), l, []doclock.AcquireOption{doclock.SkipLocked(), byPriority})
				p.want(err, doclock.ErrNotAcquired)
				p.wantNot(err, doclock.ErrNotFound)
				if int(answers.Load()) != after {
					p.Errorf("%d answers", answers.Load())
				}
				p.mem.Up()
				p.mem.Delay(0, 0)
				p.mem.Fail(0, mongo.CommandError{})
			})
		}
	}
}

// A lost reply leads to the document that the command has locked, and to no other one. A lost request, to the next attempt,
// by a new id.
func TestAClaimOfUnknownOutcomeHoldsOneDocument(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		for _, sharded := range []bool{false, true} {
			virtually(t, fmt.Sprint(cut, sharded), func(p *place) {
				p.jobs(6)
				net := faultnet.New()
				var w fixture.Commands
				coll := p.Through(options.Client().SetDialer(net).SetMonitor(w.Monitor()))
				opts := []doclock.Option{doclock.AttemptTimeout(time.Second)}
				if sharded {
					opts = append(opts, doclock.ShardKey("country"))
				}
				l := p.locker(coll, relations.Exclusive(), opts...)
				for i := range 3 {
					fault := net.Arm(cut, "findAndModify")
					w.Take()
					var job struct{ Priority int }
					lease := p.claim(l, doclock.Into(&job))
					wait(p, fault.Fired())
					id, commands := lease.ID(), 0
					for _, command := range w.All() {
						if bytes.Contains(command, id[:]) {
							commands++
						}
					}
					want, late := int64(106-i), cut == faultnet.Stall
					if cut == faultnet.LoseRequest && commands != 1 || cut == faultnet.LoseReply && commands != 3 { // a look-up, a renewal
						p.Errorf("%d commands have the id of the entry that was granted", commands)
					}
					if got := lease.DocumentID().AsInt64(); got != want && !late || job.Priority != int(got) {
						p.Errorf("claimed %d, %d", got, job.Priority)
					}
				}
				p.rest(l)
				p.wantLocked(3)
			})
		}
	}
}

// What a look-up finds is no grant: the lease counts from a renewal, which must find the entry.
func TestAClaimThatIsFoundIsRenewed(t *testing.T) {
	const ttl = 30 * time.Second
	virtual(t, func(p *place) {
		p.jobs(3)
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive(), doclock.TTL(ttl), doclock.AttemptTimeout(time.Second))
		late := func() (stop *faultnet.Net) { // no look-up is answered for 20 s
			net.Arm(faultnet.LoseReply, "findAndModify")
			net.Block(func(command string, _ []byte) bool { return command == "find" })
			time.AfterFunc(20*time.Second, func() { net.Block(nil); net.Reset() })
			return net
		}
		late()
		begun := time.Now()
		lease := p.claim(l)
		if waited := time.Since(begun); waited < 20*time.Second {
			p.Fatalf("granted after %v", waited)
		}
		var stored struct {
			Lock struct {
				Tags struct{ Write []struct{ Expires time.Time } }
			}
		}
		must(p, p.coll.FindOne(p.Context(), bson.M{"_id": 106 - 103 + 100}).Decode(&stored))
		if entries := stored.Lock.Tags.Write; len(entries) != 1 || lease.Remaining() > time.Until(entries[0].Expires) || lease.Remaining() < ttl-time.Second {
			p.Errorf("the entries are %v, the lease is valid for %v", entries, lease.Remaining())
		}

		late() // and an operator removes the entry before it is found
		time.AfterFunc(10*time.Second, func() {
			must(p, errOf(p.coll.UpdateMany(p.Context(), bson.M{"_id": bson.M{"$ne": lease.DocumentID()}}, bson.M{"$unset": bson.M{"lock": 1}})))
		})
		if next := p.claim(l); next.DocumentID().Equal(lease.DocumentID()) {
			p.Errorf("claimed %v twice", next.DocumentID())
		}
		p.rest(l)
		p.wantLocked(2)
	})
}

// Close ends a claim at once, whatever its commands meet. It waits for what the claim has begun: nothing is sent after it,
// and no entry stays.
func TestCloseEndsAClaim(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*place, *faultnet.Net){
		"no document is free": func(p *place, _ *faultnet.Net) {
			must(p, errOf(p.coll.UpdateMany(p.Context(), pendingJobs, bson.M{"$set": bson.M{"state": "done"}})))
		},
		"the answer is late": func(p *place, _ *faultnet.Net) { p.mem.Delay(1, 3*time.Second, locktest.Acquires) },
		"an unknown code": func(p *place, _ *faultnet.Net) {
			p.mem.Fail(1<<20, mongo.CommandError{Code: 424242, Message: "?"}, locktest.Acquires, locktest.CleanUps)
			time.AfterFunc(3*time.Second, func() { p.mem.Fail(0, mongo.CommandError{}) })
		},
		"the server is away": func(p *place, _ *faultnet.Net) {
			p.mem.Down(errors.New("no cable"))
			time.AfterFunc(3*time.Second, p.mem.Up)
		},
		"no look-up is answered": func(_ *place, net *faultnet.Net) {
			net.Arm(faultnet.LoseReply, "findAndModify")
			net.Block(func(command string, _ []byte) bool { return command == "find" })
			time.AfterFunc(3*time.Second, func() { net.Block(nil); net.Reset() })
		},
	} {
		for call, ask := range map[string]func(*place, *multilock.Locker) error{
			"Acquire": func(p *place, l *multilock.Locker) error {
				return errOf(l.Acquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority))
			},
			"AcquireBatch": func(p *place, l *multilock.Locker) error {
				return errOf(l.AcquireBatch(p.Context(), pendingJobs, "write", 2, byPriority))
			},
			"TryAcquire": func(p *place, l *multilock.Locker) error {
				return errOf(l.TryAcquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority))
			},
		} {
			if call == "TryAcquire" && name == "no document is free" {
				continue // it doesn't wait
			}
			virtually(t, name+", "+call, func(p *place) {
				p.jobs(3)
				net := faultnet.New()
				var w fixture.Commands
				l := p.locker(p.Through(options.Client().SetDialer(net).SetMonitor(w.Monitor())), relations.Exclusive())
				trouble(p, net)
				claimed := begin(p, func() (any, error) { return nil, ask(p, l) })
				time.Sleep(time.Second)
				begun := time.Now()
				closed := begin(p, func() (any, error) { return nil, l.Close(p.Context()) })
				err := errOf(claimed.wait())
				p.want(err, doclock.ErrNotAcquired, doclock.ErrClosed)
				if errors.Is(err, doclock.ErrNotFound) && name != "no document is free" {
					p.Error(err)
				}
				if took := time.Since(begun); took > 0 {
					p.Errorf("the claim has ended after %v", took)
				}
				ok(p, errOf(closed.wait()))
				w.Take()
				p.wantLocked(0)
				time.Sleep(time.Minute)
				if sent := w.Take(); len(sent) > 0 {
					p.Errorf("sent after Close: %v", sent)
				}
			})
		}
	}
}

// A claim sends nothing after Close has begun: it locks none of the documents that its look-up finds.
func TestCloseEndsAClaimAfterItsLookUp(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*multilock.Locker, context.Context) error{
		"Acquire": func(l *multilock.Locker, ctx context.Context) error {
			return errOf(l.Acquire(ctx, pendingJobs, "write", doclock.SkipLocked(), byPriority))
		},
		"AcquireBatch": func(l *multilock.Locker, ctx context.Context) error {
			return errOf(l.AcquireBatch(ctx, pendingJobs, "write", 2, byPriority))
		},
	} {
		virtually(t, name, func(p *place) {
			p.jobs(3)
			coll, w := p.watched()
			l := p.locker(coll, relations.Exclusive(), doclock.ShardKey("region")) // so that an Acquire looks first
			p.mem.Delay(1, 2*time.Second)
			claimed := begin(p, func() (any, error) { return nil, ask(l, p.Context()) })
			time.Sleep(time.Second)
			ok(p, l.Close(p.Context()))
			p.want(errOf(claimed.wait()), doclock.ErrNotAcquired, doclock.ErrClosed)
			if sent := w.Take(); !slices.Equal(sent, []string{"find"}) {
				p.Errorf("sent %v", sent)
			}
		})
	}
}

// letters are documents that can't take the lock, and good ones behind them. Both are due. The index can't have an entry for
// two arrays of a document (code 171), as the lock would be one.
func (p *place) letters(unfit, good int) {
	p.Helper()
	must(p, errOf(p.coll.DeleteMany(p.Context(), bson.M{})))
	unique := options.Index().SetUnique(true)
	must(p, errOf(p.coll.Indexes().CreateOne(p.Context(), mongo.IndexModel{Keys: bson.D{{Key: "n", Value: 1}, {Key: "lock.tags.write.id", Value: 1}}, Options: unique})))
	var all []any
	for i := range unfit + good {
		var n any = i
		if i < unfit {
			n = bson.A{i, -i}
		}
		all = append(all, bson.D{{Key: "_id", Value: i}, {Key: "due", Value: time.Now().Add(time.Duration(i-1000) * time.Second)}, {Key: "n", Value: n}})
	}
	must(p, errOf(p.coll.InsertMany(p.Context(), all)))
}

// due finds the letters that are due now, and claims the first one.
func (p *place) due(l *multilock.Locker) (doclock.Lease, error) {
	due := bson.M{"due": bson.M{"$lte": time.Now()}}
	return l.Acquire(p.Context(), due, "write", doclock.SkipLocked(), doclock.Sort(bson.D{{Key: "due", Value: 1}}), doclock.MaxWait(0))
}

// A claim that has passed over as many as it may ends with the next one's refusal. Nothing is forgotten: the next claim goes on
// behind those that are known.
func TestAClaimPassesOverABoundedNumber(t *testing.T) {
	virtual(t, func(p *place) {
		p.letters(260, 2)
		l := p.plain(relations.Exclusive())
		_, err := p.due(l)
		if codeOf(err) != 171 {
			p.Errorf("260 documents: %v", err)
		}
		p.wantNot(err, doclock.ErrNotFound)
		for range 2 {
			must(p, errOf(p.due(l)))
		}
		_, err = p.due(l) // it has met four of them, and nothing else
		if codeOf(err) != 171 {
			p.Errorf("all good ones are locked: %v", err)
		}
		p.wantNot(err, doclock.ErrNotFound)
	})
}

// Only what a command by its own _id was refused for is passed over. Here the first document is mended, and another one comes to
// stand in front.
func TestTheRightDocumentIsPassedOver(t *testing.T) {
	virtual(t, func(p *place) {
		p.letters(1, 0)
		mended := false
		coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
			if fixture.Name(command) == "find" && !mended {
				mended = true
				must(p, errOf(p.coll.UpdateOne(p.Context(), bson.M{"_id": 0}, bson.M{"$set": bson.M{"n": 0}})))
				must(p, errOf(p.coll.InsertOne(p.Context(), bson.M{"_id": "good", "n": 9, "due": time.Now().Add(-time.Hour)})))
			}
		})))
		h, hear := p.heard()
		l := p.locker(coll, relations.Exclusive(), hear)
		for _, want := range []any{"good", int32(0)} {
			lease := p.got(p.due(l))
			if kind, data, _ := bson.MarshalValue(want); !lease.DocumentID().Equal(bson.RawValue{Type: kind, Value: data}) {
				p.Errorf("claimed %v, want %v", lease.DocumentID(), want)
			}
		}
		if skipped := h.of(doclock.EventSkipped); len(skipped) > 0 {
			p.Errorf("passed over %v", skipped)
		}
	})
}

// A document that a transaction has locked holds a command up, and not its claim: it is passed over by that claim. "None is free"
// is never said because of it.
func TestAClaimPassesOverADocumentThatAnswersTooLate(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(2)
		inFront := func(command bson.Raw) bool { // 102, which it doesn't pass over
			past, err := command.LookupErr("query", "$and", "2", "_id", "$nin")
			return fixture.Name(command) == "findAndModify" && command.Lookup("update", "0", "$set", "lock").Type != 0 &&
				(err != nil || !bytes.Contains(past.Value, []byte{102, 0, 0, 0}))
		}
		coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
			if inFront(command) {
				p.mem.Fail(1, mongo.CommandError{Code: 50, Message: "operation exceeded time limit"}, locktest.Acquires)
			}
		})))
		h, hear := p.heard()
		l := p.locker(coll, relations.Exclusive(), hear)
		if got := p.claim(l).DocumentID().AsInt64(); got != 101 {
			p.Errorf("claimed %d", got)
		}
		_, err := l.TryAcquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
		if p.wantNot(err, doclock.ErrNotFound); codeOf(err) != 50 {
			p.Error(err)
		}
		if skipped := h.of(doclock.EventSkipped); len(skipped) > 0 { // nothing has to be mended
			p.Errorf("passed over %v", skipped)
		}
	})
}

// A document that a transaction has locked keeps no claim from the others, however short its wait is.
func TestAClaimOfAnyWaitPassesOverALockedDocument(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]func(c *client) (multilock.Leases, error){
		"TryAcquire": func(c *client) (multilock.Leases, error) {
			held, err := c.locks.TryAcquire(c.Context(), bson.M{}, "write", doclock.SkipLocked())
			return multilock.Leases{held}, err
		},
		"Acquire": func(c *client) (multilock.Leases, error) {
			held, err := c.locks.Acquire(c.Context(), bson.M{}, "write", doclock.SkipLocked(), doclock.MaxWait(time.Second))
			return multilock.Leases{held}, err
		},
		"Acquire with a deadline": func(c *client) (multilock.Leases, error) {
			ctx, cancel := context.WithTimeout(c.Context(), time.Second)
			defer cancel()
			held, err := c.locks.Acquire(ctx, bson.M{}, "write", doclock.SkipLocked())
			return multilock.Leases{held}, err
		},
		"one try of a batch": func(c *client) (multilock.Leases, error) {
			return c.locks.AcquireBatch(c.Context(), bson.M{}, "write", 2, doclock.MaxWait(0))
		},
		"a batch": func(c *client) (multilock.Leases, error) {
			return c.locks.AcquireBatch(c.Context(), bson.M{}, "write", 2, doclock.MaxWait(time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for locked := 1; locked <= 2; locked++ {
				inShop(t, func(s *shop) {
					c := s.client(relations.Exclusive())
					defer s.block(locked)()
					all, err := claim(c)
					must(s, err)
					if id := int(all[0].DocumentID().AsInt64()); len(all) != 1 || id == locked {
						s.Errorf("%v", all)
					}
					ok(s, all.Release(s.Context()))
				})
			}
		})
	}
}

// An acquire that a transaction keeps from an answer names the document.
func TestATimeoutNamesTheDocument(t *testing.T) {
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		defer s.block(1)()
		_, err := c.locks.Acquire(s.Context(), doclock.ID(1), "write")
		fault{doclock.ErrNotAcquired, []string{`acquire "write" on document 1 of test.categories: `}}.check(s, "Acquire", err)
	})
}

// A document that the caller can't decode keeps no claim from the others: for a minute they pass
// over it, and a batch comes without it.
func TestAClaimPassesOverWhatItCantDecode(t *testing.T) {
	t.Parallel()
	type category struct{ Rank int }
	first := doclock.Sort(doclock.ID(1))
	for name, claim := range map[string]func(c *client) (multilock.Leases, error){
		"Acquire": func(c *client) (multilock.Leases, error) {
			held, err := c.locks.Acquire(c.Context(), bson.M{}, "write", doclock.SkipLocked(), doclock.Into(&category{}), first)
			return multilock.Leases{held}, err
		},
		"AcquireBatch": func(c *client) (multilock.Leases, error) {
			return c.locks.AcquireBatch(c.Context(), bson.M{}, "write", 2, doclock.Into(&[]category{}), first)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				skipped := 0
				c := s.client(relations.Exclusive(), doclock.OnEvent(func(_ context.Context, e doclock.Event) {
					if e.Kind == doclock.EventSkipped {
						skipped++
					}
				}))
				categories := s.mem.Collection("categories")
				must(s, errOf(categories.UpdateOne(s.Context(), doclock.ID(1), bson.M{"$set": bson.M{"rank": "high"}})))
				for range 2 {
					all, err := claim(c)
					if name == "Acquire" {
						fault{doclock.ErrNotAcquired, []string{"decode document 1 into a *multilock_test.category"}}.check(t, name, err)
						time.Sleep(time.Second) // it is free again
						all, err = claim(c)
					}
					must(s, err)
					if len(all) != 1 || all[0].DocumentID().AsInt64() != 2 {
						s.Errorf("%v", all)
					}
					ok(s, all.Release(s.Context()))
					time.Sleep(61 * time.Second)
				}
				if skipped != 2 {
					s.Errorf("%d events", skipped)
				}
			})
		})
	}
}

// A request that arrives after its claim has gone on is cleaned up, by the claim's filter.
func TestALateClaimIsCleanedUp(t *testing.T) {
	virtual(t, func(p *place) {
		p.jobs(3)
		must(p, errOf(p.coll.InsertOne(p.Context(), bson.M{"_id": 200, "state": "done"})))
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
		p.mem.Delay(1, 5*time.Second, locktest.Acquires)
		lease := p.claim(l)
		time.Sleep(10 * time.Second)
		p.wantLocked(1)
		n := 0
		for _, command := range w.All() {
			if command.Lookup("comment").StringValue() == "doclock clean-up" {
				n++
				if command.Lookup("query", "$and", "0", "state").StringValue() != "pending" {
					p.Errorf("the clean-up looks for %v", command.Lookup("query"))
				}
			}
		}
		if n == 0 {
			p.Error("nothing was cleaned up")
		}
		p.release(lease)
	})
}
