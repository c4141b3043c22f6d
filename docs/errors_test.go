package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// These are the recipes of errors.md. The tests run them on a server in memory.

func addContact(ctx context.Context, locks *multilock.Locker, contacts *mongo.Collection, id bson.ObjectID) error {
	err := locks.Do(ctx, doclock.ID("friends"), "read", func(ctx context.Context, _ *doclock.Lease) error {
		_, err := contacts.InsertOne(context.WithoutCancel(ctx), bson.M{"_id": id, "category": "friends"})
		return err
	})
	if errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) {
		_, undo := contacts.DeleteOne(context.WithoutCancel(ctx), doclock.ID(id))
		err = errors.Join(err, undo)
	}
	return err
}

func status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, doclock.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, doclock.ErrConflict):
		return http.StatusLocked
	case errors.Is(err, doclock.ErrNotAcquired): // nothing ran: the request may come again
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func tell(err error) string {
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) && len(conflict.Holders) > 0 {
		first := conflict.Holders[0]
		return fmt.Sprintf("%s has it since %s", first.Owner, first.Since.Format(time.Kitchen))
	}
	return "nobody has it any more: try again"
}

func countPrint(ctx context.Context, locks *writelock.Locker) error {
	for {
		var order struct{ Prints int }
		lease, err := locks.Acquire(ctx, doclock.ID("A-17"), doclock.Into(&order))
		if err != nil {
			return err
		}
		err = lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"prints": order.Prints + 1}})
		if !errors.Is(err, doclock.ErrLost) {
			return err
		}
	}
}

func doSteps(ctx context.Context, steps []func(context.Context) error) error {
	for _, step := range steps {
		if ctx.Err() != nil {
			return context.Cause(ctx) // ErrLost: others may be at work
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func payIn(ctx context.Context, locks *writelock.Locker, payment string, amount int) error {
	var account struct{ Last string }
	return locks.Do(ctx, doclock.ID("ann"), func(ctx context.Context, lease *doclock.Lease) error {
		if account.Last == payment {
			return nil // an earlier call has written it
		}
		change := bson.M{"$inc": bson.M{"balance": amount}, "$set": bson.M{"last": payment}}
		return lease.UpdateAndRelease(ctx, change)
	}, doclock.Into(&account))
}

// inTransaction is compiled, and not run: neither FerretDB nor locktest has transactions.
func inTransaction(ctx context.Context, locks *writelock.Locker, accounts *mongo.Collection, change bson.M) error {
	return locks.Do(ctx, doclock.ID("ann"), func(ctx context.Context, lease *doclock.Lease) error {
		session, err := accounts.Database().Client().StartSession()
		if err != nil {
			return err
		}
		defer session.EndSession(ctx)
		_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			written, err := accounts.UpdateOne(ctx, lease.Guard(), change)
			if err == nil && written.MatchedCount == 0 {
				err = errors.New("the lock is lost: nothing is written")
			}
			return nil, err
		})
		return err
	})
}

var _ = inTransaction

// always is more often than any command is repeated.
const always = 1000

var refusal = mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not authorized"}

// Somebody waits to write while a contact is added. The contact stays, or is removed
// again, as the error says.
func TestErrorsTellWhatToUndo(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*locktest.Server)
		err   error
		stays int64
	}{
		"no fault":       {func(*locktest.Server) {}, nil, 1},
		"lock lost":      {func(mem *locktest.Server) { mem.Fail(always, refusal, locktest.Renewals) }, doclock.ErrLost, 0},
		"no reply":       {func(mem *locktest.Server) { mem.LoseReplies(always, locktest.Releases) }, doclock.ErrOutcomeUnknown, 0},
		"one reply lost": {func(mem *locktest.Server) { mem.LoseReplies(1, locktest.Releases) }, nil, 1},
		"refused":        {func(mem *locktest.Server) { mem.Fail(always, refusal, locktest.Acquires) }, doclock.ErrNotAcquired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := locktest.New()
				categories, contacts := inMemory(t, mem, "categories", bson.M{"_id": "friends"}), inMemory(t, mem, "contacts")
				locks, err := multilock.New(categories, relations.WritePreferring())
				must(t, err)
				writers, err := multilock.New(categories, relations.WritePreferring())
				must(t, err)
				var writer sync.WaitGroup
				writer.Go(func() {
					time.Sleep(time.Second)
					_ = writers.Do(t.Context(), doclock.ID("friends"), "write", func(context.Context, *doclock.Lease) error { return nil })
				})
				mem.Delay(1, 30*time.Second, locktest.Others) // the insert
				c.fault(mem)
				err = addContact(t.Context(), locks, contacts, bson.NewObjectID())
				if c.err == nil && err != nil || !errors.Is(err, c.err) {
					t.Errorf("%v, want %v", err, c.err)
				}
				if n, err := contacts.CountDocuments(t.Context(), bson.M{}); n != c.stays || err != nil {
					t.Errorf("%d contacts after %v", n, err)
				}
				writer.Wait()
			})
		})
	}
}

// Each answer has a status of its own, and a conflict has a name.
func TestErrorsOfAnAcquire(t *testing.T) {
	mem := locktest.New()
	orders := inMemory(t, mem, "orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	must(t, err)
	ada, err := writelock.New(orders, doclock.Owner("Ada"))
	must(t, err)
	held, err := ada.TryAcquire(t.Context(), doclock.ID("A-17"))
	must(t, err)

	_, err = locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	if said := tell(err); status(err) != http.StatusLocked || !strings.HasPrefix(said, "Ada has it since ") {
		t.Error(status(err), said)
	}
	must(t, held.Release(t.Context()))
	_, err = locks.TryAcquire(t.Context(), doclock.ID("B-02"))
	if status(err) != http.StatusNotFound {
		t.Error(err)
	}
	mem.Fail(1, refusal)
	_, err = locks.TryAcquire(t.Context(), doclock.ID("A-17"))
	if status(err) != http.StatusServiceUnavailable {
		t.Error(err)
	}
	if free := tell(&doclock.ConflictError{}); free != "nobody has it any more: try again" {
		t.Error(free)
	}
}

// A loss before the write changes nothing: the print is counted once.
func TestErrorsBeginAgain(t *testing.T) {
	mem := locktest.New()
	orders := inMemory(t, mem, "orders", bson.M{"_id": "A-17"})
	others, err := writelock.New(orders)
	must(t, err)
	commands := 0
	monitor := &event.CommandMonitor{Started: func(ctx context.Context, _ *event.CommandStartedEvent) {
		if commands++; commands == 2 { // the write: the program was stopped before it
			mem.Advance(time.Minute)
			lease, err := others.TryAcquire(ctx, doclock.ID("A-17"))
			must(t, err)
			must(t, lease.Release(ctx))
		}
	}}
	client, err := mem.Connect(options.Client().SetMonitor(monitor))
	must(t, err)
	locks, err := writelock.New(client.Database(orders.Database().Name()).Collection(orders.Name()))
	must(t, err)
	must(t, countPrint(t.Context(), locks))
	var order struct{ Prints int }
	must(t, orders.FindOne(t.Context(), doclock.ID("A-17")).Decode(&order))
	if order.Prints != 1 {
		t.Error(order.Prints, "prints")
	}
}

// A payment of unknown outcome is paid in again: it is there once.
func TestErrorsPayAgain(t *testing.T) {
	for name, fault := range map[string]func(*locktest.Server){
		"written":     func(mem *locktest.Server) { mem.LoseReplies(always, locktest.Writes) },
		"not written": func(mem *locktest.Server) { mem.LoseRequests(always, locktest.Writes) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := locktest.New()
				accounts := inMemory(t, mem, "accounts", bson.M{"_id": "ann", "balance": 10})
				locks, err := writelock.New(accounts)
				must(t, err)
				fault(mem)
				if err := payIn(t.Context(), locks, "payment 1", 5); !errors.Is(err, doclock.ErrOutcomeUnknown) {
					t.Error(err)
				}
				mem.LoseReplies(0)
				mem.LoseRequests(0)
				must(t, payIn(t.Context(), locks, "payment 1", 5))
				var account struct{ Balance int }
				must(t, accounts.FindOne(t.Context(), doclock.ID("ann")).Decode(&account))
				if account.Balance != 15 {
					t.Error("the balance is", account.Balance)
				}
			})
		})
	}
}

// The steps end with the lock.
func TestErrorsEndTheSteps(t *testing.T) {
	mem := locktest.New()
	orders := inMemory(t, mem, "orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	must(t, err)
	done := 0
	err = locks.Do(t.Context(), doclock.ID("A-17"), func(ctx context.Context, lease *doclock.Lease) error {
		step := func(ctx context.Context) error {
			done++
			must(t, mem.Lose(lease))
			if err := lease.Renew(ctx); !errors.Is(err, doclock.ErrLost) {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		}
		return doSteps(ctx, []func(context.Context) error{step, step})
	})
	if !errors.Is(err, doclock.ErrLost) || done != 1 {
		t.Error(done, err)
	}
}

func inMemory(t *testing.T, mem *locktest.Server, name string, documents ...any) *mongo.Collection {
	t.Helper()
	coll, err := mem.Collection(name, documents...)
	must(t, err)
	return coll
}
