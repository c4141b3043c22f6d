package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A command for a new mark that had no answer may be executed later. No transaction runs under
// the old mark then: who comes next settles the new one alone.
func TestLateMarkMeetsNoTransaction(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]time.Duration{"begun during the command": 3 * time.Second, "begun after it": 12 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				c, next := s.client(relations.ReadPreferring(), doclock.ShareInProcess("read")), s.client(relations.ReadPreferring())
				held := c.acquire("read")
				must(s, c.add(held, "ann"))
				alive, stopped := context.WithCancel(s.Context())
				held.KeepAlive(alive)
				c.sent.before(func(name string) {
					switch name {
					case "commitTransaction":
						s.mem.Fail(1, mongo.CommandError{Code: 251}, locktest.Transactions)
					case "mark":
						s.mem.Delay(2, 20*time.Second, locktest.Transactions) // a fence is made at the same time
					}
				})
				go func() {
					ctx, cancel := context.WithTimeout(s.Context(), time.Second)
					defer cancel()
					_ = held.WithTransaction(ctx, func(ctx context.Context) error { return c.insert(ctx, "bob") })
				}()
				time.Sleep(meanwhile)
				c.sent.before(nil)
				done, goOn := make(chan error), make(chan bool)
				for _, id := range []string{"cem", "dan"} {
					go func() {
						done <- held.WithTransaction(s.Context(), func(ctx context.Context) error {
							err := c.insertAnyway(ctx, id)
							<-goOn
							return err
						})
					}()
				}
				time.Sleep(25*time.Second - meanwhile) // the command arrives
				stopped()                              // and the process stands still
				granted := next.follow()
				time.Sleep(20 * time.Second)
				close(goOn)
				_, _ = <-done, <-done
				before := <-granted
				if after := s.added(); len(after) != len(before) {
					s.Errorf("granted beside %q, and later there was %q", before, after)
				}
			})
		})
	}
}

// Two calls with two leases of one document, in two orders, don't wait for each other.
func TestTransactionsOfOneDocumentDontCross(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Semaphore(2))
		one, two := c.acquire("slot"), c.acquire("slot")
		done := make(chan error, 2)
		call := func(leases ...doclock.Lease) {
			for range 20 {
				if err := multilock.Leases(leases).WithTransaction(s.Context(), func(context.Context) error { return nil }); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}
		go call(one, two)
		go call(two, one)
		for range 2 {
			select {
			case err := <-done:
				ok(s, err)
			case <-time.After(time.Second):
				s.Fatal("the calls wait for each other")
			}
		}
		ok(s, multilock.Leases{one, two}.Release(s.Context()))
	})
}

// Once ctx has ended, a call whose commit was sent takes two attempts' time at most.
func TestCommitIsAwaitedForTwoAttempts(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*client){
		"nobody is reached":  func(c *client) { c.mem.Cut(c.Client) },
		"no command arrives": func(c *client) { c.mem.Delay(100, time.Hour) },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				c := s.client(relations.Exclusive(), doclock.AttemptTimeout(2*time.Second))
				held := c.acquire("write")
				ctx, cancel := context.WithCancel(s.Context())
				var sent time.Time
				c.sent.before(func(name string) {
					if name == "commitTransaction" && sent.IsZero() {
						sent = time.Now()
						fault(c)
						cancel()
					}
				})
				err := held.WithTransaction(ctx, func(ctx context.Context) error { return c.insert(ctx, "ann") })
				if took := time.Since(sent); !errors.Is(err, doclock.ErrOutcomeUnknown) || took > 4*time.Second {
					s.Errorf("after %v: %v", took, err)
				}
				c.sent.before(nil)
				s.mem.Delay(0, 0)
				s.mem.Reconnect(c.Client)
				_ = held.Release(s.Context())
				synctest.Wait()
			})
		})
	}
}

// What the function returns is no verdict on its transaction.
func TestFunctionsErrorIsNoVerdict(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive())
		held := c.acquire("write")
		for _, other := range []error{doclock.ErrOutcomeUnknown, doclock.ErrLost, doclock.ErrNotAcquired} {
			err := held.WithTransaction(s.Context(), func(context.Context) error { return other })
			if err == nil || errors.Is(err, other) {
				s.Errorf("%v became %v", other, err)
			}
		}
		ok(s, held.Release(s.Context()))
	})
}

// The first transaction of a process goes beside an open one of another, also the fence's index.
func TestFirstTransactionGoesBesideOthers(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		one, two := s.client(relations.ReadPreferring()), s.client(relations.ReadPreferring())
		first, second := one.acquire("read"), two.acquire("read")
		must(s, first.WithTransaction(s.Context(), func(context.Context) error {
			begun := time.Now()
			must(s, two.add(second, "ann"))
			if took := time.Since(begun); took > 100*time.Millisecond {
				s.Errorf("it took %v", took)
			}
			return nil
		}))
		ok(s, errors.Join(first.Release(s.Context()), second.Release(s.Context())))
	})
}

// A write of the locked document conflicts with a renewal since the function's begin, and one at
// its begin has the renewal wait.
func TestGuardedWriteComesFirst(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive(), doclock.TTL(3*time.Second))
		runs := 0
		must(s, c.locks.Do(s.Context(), doclock.ID(1), "write", func(ctx context.Context, held doclock.Lease) error {
			return held.WithTransaction(ctx, func(ctx context.Context) error {
				if runs++; runs == 1 {
					time.Sleep(1500 * time.Millisecond) // a renewal comes
				}
				err := errOf(c.categories.UpdateOne(ctx, held.Guard(), bson.M{"$inc": bson.M{"n": 1}}))
				time.Sleep(1500 * time.Millisecond)
				return errors.Join(err, ctx.Err())
			})
		}))
		written, err := c.categories.CountDocuments(s.Context(), bson.M{"n": 1})
		if ok(s, err); runs != 2 || written != 1 {
			s.Errorf("%d runs, and %d documents have it", runs, written)
		}
	})
}

// Calls that wait for a settle share the next one. Each is told who holds the lock.
func TestManyTriesShareASettle(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, next := s.client(relations.Exclusive()), s.client(relations.Exclusive())
		held := c.acquire("write")
		done, goOn := make(chan error), make(chan bool)
		go func() {
			done <- held.WithTransaction(s.Context(), func(context.Context) error { <-goOn; return nil })
		}()
		time.Sleep(15 * time.Second)
		tries := make(chan error)
		for range 20 {
			go func() { tries <- errOf(next.locks.TryAcquire(s.Context(), doclock.ID(1), "write")) }()
		}
		for range 20 {
			err, conflict := <-tries, (*doclock.ConflictError)(nil)
			if !errors.As(err, &conflict) || conflict.Holders[0].Remaining != 0 || conflict.RetryAfter != time.Second {
				s.Errorf("got %+v", err)
			} else if !strings.Contains(err.Error(), "(expired, but a transaction of its holder may be open)") {
				s.Errorf("it says %v", err)
			}
		}
		if settles := strings.Count(next.sent.take(), "settle"); settles != 1 {
			s.Errorf("20 tries at a time sent %d settles", settles)
		}
		close(goOn)
		ok(s, <-done)
		_ = held.Release(s.Context())
	})
}

// The commit was refused, and a read is to tell whether the entry stands.
func TestReadAfterACommitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.Exclusive(), doclock.AttemptTimeout(2*time.Second))
		held := c.acquire("write", doclock.TTL(time.Hour))
		must(s, c.add(held, "ann"))
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		var ended time.Time
		c.sent.before(func(name string) {
			switch {
			case !ended.IsZero():
			case name == "commitTransaction":
				s.mem.Fail(1, mongo.CommandError{Code: 251, Name: "NoSuchTransaction", Message: "no such transaction"})
			case name == "proof":
				ended = time.Now()
				s.mem.Cut(c.Client)
				cancel()
			}
		})
		err := c.addIn(ctx, held, "bob")
		if took := time.Since(ended); err == nil || ended.IsZero() || took > 4*time.Second {
			s.Errorf("%v after the end of its context: %v", took, err)
		}
		c.sent.before(nil)
		s.mem.Reconnect(c.Client)
		_ = held.Release(s.Context())
	})
}
