package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// What a holder leaves behind whose transaction may be open: who comes next settles it (rule 28).

// The next holder waits for the transaction of one whose time is up, and finds what it has written.
func TestNextHolderWaitsForTheTransaction(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, other := s.client(relations.WritePreferring()), s.client(relations.WritePreferring())
		held := c.acquire("read") // which nothing renews
		commit := c.addSlowly(held, "ann")
		next := make(chan doclock.Lease)
		go func() { next <- other.acquire("write") }()
		time.Sleep(20 * time.Second)
		select {
		case <-next:
			s.Fatal("granted beside an open transaction")
		default:
		}
		ok(s, commit())
		ok(s, (<-next).Release(s.Context()))
		s.has("ann")
	})
}

// Of two dead holders one has an open transaction. The other one's place is free, whoever came first.
func TestAnOpenTransactionKeepsItsOwnPlaceAlone(t *testing.T) {
	t.Parallel()
	for _, open := range []int{0, 1} {
		inShop(t, func(s *shop) {
			c, other := s.client(relations.Semaphore(2)), s.client(relations.Semaphore(2))
			var commit func() error
			for i := range 2 {
				held := c.acquire("slot") // which nothing renews
				if i != open {
					must(s, c.add(held, "ann"))
				} else {
					commit = c.addSlowly(held, "bob")
				}
			}
			time.Sleep(11 * time.Second)
			next, err := other.locks.Acquire(s.Context(), doclock.ID(1), "slot", doclock.MaxWait(5*time.Second))
			ok(s, commit())
			must(s, err)
			ok(s, next.Release(s.Context()))
		})
	}
}

// A holder whose mark is settled, and who is still there, begins under a new one: the old one is
// named already.
func TestSettledHolderBeginsUnderANewMark(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, other := s.client(relations.WritePreferring()), s.client(relations.WritePreferring())
		held := c.acquire("read")
		must(s, c.add(held, "ann"))
		time.Sleep(11 * time.Second)
		other.sent.before(func(name string) { // it has settled the mark, and is slow to name it
			if name == "confirm" {
				other.sent.before(nil)
				time.Sleep(3 * time.Second)
			}
		})
		next := other.follow()
		time.Sleep(time.Second)
		c.sent.before(func(name string) {
			if name == "commitTransaction" {
				c.sent.before(nil)
				time.Sleep(3 * time.Second) // less than an attempt may take, and until the other one is there
			}
		})
		err := held.WithTransaction(s.Context(), func(ctx context.Context) error { // which ignores the end of its context
			return c.insertAnyway(ctx, "bob")
		})
		at := <-next
		if slices.Contains(at, "bob") != (err == nil) {
			s.Errorf("%v, and the next holder finds %q", err, at)
		}
		time.Sleep(time.Minute)
		if later := s.added(); !slices.Equal(at, later) {
			s.Errorf("the next holder finds %q, and then there are %q", at, later)
		}
	})
}

// Each of those who share a lease has a fence of its own, and who comes next settles all.
func TestSharedLeaseIsSettledWhole(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, next := s.client(relations.ReadPreferring(), doclock.ShareInProcess("read")), s.client(relations.ReadPreferring())
		inside, done := make(chan bool), make(chan error)
		var all []chan bool
		for i := range 4 {
			held, goOn := c.acquire("read"), make(chan bool)
			all = append(all, goOn)
			go func() {
				done <- held.WithTransaction(s.Context(), func(ctx context.Context) error {
					inside <- true
					<-goOn
					return c.insertAnyway(ctx, string(rune('a'+i)))
				})
			}()
			<-inside // it has the first fence that is free
		}
		granted := next.follow()
		time.Sleep(15 * time.Second)
		for _, goOn := range all { // that of the first fence is first
			goOn <- true
			ok(s, <-done)
			time.Sleep(3 * time.Second)
		}
		if got := <-granted; len(got) != 4 {
			s.Errorf("granted beside %q", got)
		}
	})
}

// A take-over, a break and a resume settle the transactions of the holder before they let
// anybody in.
func TestEndOfALeaseByOthersSettles(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *shop, theirs *client, held doclock.Lease, token string) error{
		"take-over": func(s *shop, theirs *client, held doclock.Lease, _ string) error {
			return errOf(theirs.locks.TryAcquire(s.Context(), doclock.ID(1), "write", doclock.TakeOver(doclock.Holder{ID: held.ID(), Fence: held.Fence()})))
		},
		"break": func(s *shop, theirs *client, held doclock.Lease, _ string) error {
			lock, err := admin.Inspect(s.Context(), theirs.categories, doclock.ID(1))
			if err == nil && !lock.Entries[0].HasTransactions {
				err = errors.New("the entry has no transactions")
			}
			return errors.Join(err, errOf(admin.Break(s.Context(), theirs.categories, lock.Entries[0])))
		},
		"remove": func(s *shop, theirs *client, held doclock.Lease, _ string) error {
			n, err := admin.Remove(s.Context(), theirs.categories, admin.Query{Tags: []string{"write"}})
			if err == nil && n.Removed != 1 {
				err = errors.New("nothing was removed")
			}
			return err
		},
		"resume": func(s *shop, theirs *client, held doclock.Lease, token string) error {
			return errOf(theirs.locks.Resume(s.Context(), doclock.ID(1), token))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				c, theirs := s.client(relations.Exclusive()), s.client(relations.Exclusive())
				held, token := c.resume()
				must(s, c.add(held, "ann"))
				stopped, done := make(chan bool), make(chan error)
				go func() {
					done <- held.WithTransaction(s.Context(), func(ctx context.Context) error { // which ignores the end of its context
						close(stopped)
						time.Sleep(50 * time.Second)
						return c.insertAnyway(ctx, "late")
					})
				}()
				<-stopped
				_ = held.KeepAlive(s.Context())
				begun := time.Now()
				err := end(s, theirs, held, token)
				if name == "take-over" && errors.Is(err, doclock.ErrConflict) { // it tries once, and the transaction is open
					time.Sleep(time.Minute)
					err = end(s, theirs, held, token)
					ok(s, err)
				}
				if err != nil && time.Since(begun) < 20*time.Second {
					s.Errorf("%v after %v", err, time.Since(begun))
				}
				at := s.added()
				told := <-done
				if later := s.added(); err == nil && len(at) != len(later) {
					s.Errorf("%v; it was told %v, and %q came late", err, told, later)
				}
				if err == nil && !errors.Is(held.Release(s.Context()), doclock.ErrLost) {
					s.Error("the lease is not lost")
				}
			})
		})
	}
}

// A claim passes over the document of a dead holder, and then frees it.
func TestClaimFreesADeadHoldersDocument(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, workers := s.client(relations.Exclusive()), s.client(relations.Exclusive())
		leases := c.acquireTwo()
		must(s, leases.WithTransaction(s.Context(), func(ctx context.Context) error { return c.insert(ctx, "ann") }))
		s.mem.Cut(c.Client) // it is dead
		time.Sleep(11 * time.Second)
		for range 2 {
			held, err := workers.locks.Acquire(s.Context(), bson.M{}, "write", doclock.SkipLocked(), doclock.MaxWait(30*time.Second))
			must(s, err)
			defer func() { ok(s, held.Release(s.Context())) }()
		}
		s.mem.Reconnect(c.Client)
	})
}

// The open transactions of dead holders hold up no claim: it gets what is free meanwhile, and then what is freed.
func TestClaimDoesNotWaitForTheTransactionsOfDeadHolders(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, workers := s.client(relations.Exclusive()), s.client(relations.Exclusive())
		dead := c.acquireTwo()
		first, second := c.addSlowly(dead[0], "ann"), c.addSlowly(dead[1], "bob")
		time.Sleep(11 * time.Second)
		claim := func() (doclock.Lease, error) {
			return workers.locks.Acquire(s.Context(), bson.M{}, "write", doclock.SkipLocked(), doclock.MaxWait(15*time.Second))
		}
		time.AfterFunc(time.Second/2, func() { ok(s, errOf(s.mem.Collection("categories").InsertOne(s.Context(), doclock.ID(3)))) })
		begun := time.Now()
		held, err := claim()
		if took := time.Since(begun); err != nil || took > time.Second {
			s.Errorf("%v after %v", err, took)
		} else {
			defer func() { ok(s, held.Release(s.Context())) }()
		}
		ok(s, errors.Join(first(), second()))
		held, err = claim()
		must(s, err)
		ok(s, held.Release(s.Context()))
	})
}

// An acquire that is granted beside a dead holder removes its entry, so that the document doesn't grow. Where that fails the
// next one does.
func TestDeadHoldersEntryIsSwept(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, other := s.client(relations.ReadPreferring()), s.client(relations.ReadPreferring())
		must(s, c.add(c.acquire("read"), "ann"))
		time.Sleep(11 * time.Second)
		s.mem.Fail(1, mongo.CommandError{Code: 91, Name: "ShutdownInProgress"}, locktest.Transactions) // the settle
		for _, left := range []int{2, 1} {
			held := other.acquire("read")
			time.Sleep(time.Second)
			lock, err := admin.Inspect(s.Context(), other.categories, doclock.ID(1))
			must(s, err)
			if entries := lock.Entries; len(entries) != left || entries[left-1].ID != held.ID() {
				s.Errorf("the entries are %v", entries)
			}
			ok(s, held.Release(s.Context()))
		}
	})
}

// Of the acquires that are granted beside a dead holder while it is swept, none sweeps again.
func TestDeadHoldersEntryIsSweptOnce(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, other := s.client(relations.ReadPreferring()), s.client(relations.ReadPreferring())
		must(s, c.add(c.acquire("read"), "ann"))
		time.Sleep(11 * time.Second)
		s.mem.Delay(1, time.Second/2, locktest.Transactions) // the settle
		other.sent.take()
		for range 3 {
			other.acquire("read")
		}
		time.Sleep(2 * time.Second)
		if sent := strings.Fields(other.sent.take()); len(sent) != 5 || sent[4] != "admin" {
			s.Errorf("sent %q, want three acquires, a settle and a removal", sent)
		}
	})
}

// An acquire or a resume that settles while Close begins doesn't ask again: it would be granted.
func TestCloseEndsWhoSettles(t *testing.T) {
	t.Parallel()
	for sent, ask := range map[string]func(l *multilock.Locker, ctx context.Context, token string) (doclock.Lease, error){
		"acquire settle": func(l *multilock.Locker, ctx context.Context, _ string) (doclock.Lease, error) {
			return l.TryAcquire(ctx, doclock.ID(1), "write")
		},
		"resume proof settle": func(l *multilock.Locker, ctx context.Context, token string) (doclock.Lease, error) {
			return l.Resume(ctx, doclock.ID(1), token)
		},
	} {
		t.Run(sent, func(t *testing.T) {
			inShop(t, func(s *shop) {
				c, other := s.client(relations.Exclusive()), s.client(relations.Exclusive())
				held, token := c.resume()
				must(s, c.add(held, "ann"))
				if sent == "acquire settle" {
					time.Sleep(11 * time.Second)
				}
				s.mem.Delay(1, time.Second/2, locktest.Transactions) // the settle
				other.sent.take()
				asked := begin(s, func() (doclock.Lease, error) { return ask(other.locks, s.Context(), token) })
				time.Sleep(time.Second / 10)
				ok(s, other.locks.Close(s.Context()))
				if err := errOf(asked.wait()); !errors.Is(err, doclock.ErrClosed) {
					s.Error(err)
				}
				other.sends(sent)
			})
		})
	}
}

// An hour after a settle the mark is settled again: a day after its last use a fence is removed.
func TestSettleCountsForAnHour(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c, other := s.client(relations.ReadPreferring()), s.client(relations.ReadPreferring(), doclock.PollInterval(10*time.Second))
		reader := s.client(relations.ReadPreferring()).acquire("read", doclock.TTL(3*time.Hour))
		must(s, c.add(c.acquire("read"), "ann"))
		time.Sleep(11 * time.Second)
		ctx, end := context.WithTimeout(s.Context(), 90*time.Minute)
		defer end()
		if _, err := other.locks.Acquire(ctx, doclock.ID(1), "write"); err == nil {
			s.Error("granted beside a reader")
		}
		if settles := strings.Count(other.sent.take(), "settle"); settles != 2 {
			s.Errorf("%d settles in 90 minutes, want 2", settles)
		}
		ok(s, reader.Release(s.Context()))
	})
}

// A settle that comes an hour after the commit doesn't show that this was not applied: the fence may have been removed, and
// made anew by the settle.
func TestSettleAnHourAfterTheCommitProvesNothing(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		var suspended atomic.Int64
		begun := time.Now()
		c := s.client(relations.Exclusive(), with(func(cfg *engine.Config) {
			cfg.Clock = func() engine.Reading {
				more := time.Duration(suspended.Load())
				return engine.Reading{Mono: time.Since(begun) + more, Wall: time.Now().Add(more).Round(0)}
			}
		}))
		held := c.acquire("write", doclock.TTL(3*time.Hour))
		c.sent.before(func(name string) {
			if name == "commitTransaction" && suspended.Swap(int64(time.Hour)) == 0 {
				s.mem.Fail(1, mongo.CommandError{Code: 251, Name: "NoSuchTransaction", Message: "no such transaction"})
			}
		})
		if err := c.add(held, "ann"); !errors.Is(err, doclock.ErrOutcomeUnknown) {
			s.Errorf("%v, want an unknown outcome", err)
		}
		_ = held.Release(s.Context()) // which leaves it to expire
	})
}

// A new mark is set when no transaction of the old one runs: nobody would settle that.
func TestNewMarkWaitsForTransactions(t *testing.T) {
	t.Parallel()
	inShop(t, func(s *shop) {
		c := s.client(relations.ReadPreferring(), doclock.ShareInProcess("read"))
		held, other := c.acquire("read"), c.acquire("read")
		must(s, c.add(held, "ann"))
		done := make(chan error)
		go func() {
			done <- held.WithTransaction(s.Context(), func(ctx context.Context) error {
				time.Sleep(3 * time.Second)
				return c.insert(ctx, "bob")
			})
		}()
		synctest.Wait()
		begun, runs := time.Now(), 0
		ok(s, other.WithTransaction(s.Context(), func(ctx context.Context) error {
			if runs++; runs == 1 {
				_ = c.insert(ctx, "ann") // a duplicate, which ends the transaction
				return nil
			}
			if time.Since(begun) < 2*time.Second {
				s.Error("it has a new mark beside the transaction of another caller")
			}
			return c.insert(ctx, "cid")
		}))
		ok(s, <-done)
		ok(s, held.Release(s.Context()))
		ok(s, other.Release(s.Context()))
		s.has("ann", "bob", "cid")
	})
}
