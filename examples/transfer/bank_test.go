package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

func open(t *testing.T, accounts *mongo.Collection) *writelock.Locker {
	t.Helper()
	locks, err := writelock.New(accounts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return locks
}

func newAccounts(t *testing.T, n int) (*mongo.Collection, []bson.ObjectID) {
	t.Helper()
	accounts := mongotest.Database(t).Collection("accounts")
	ids := make([]bson.ObjectID, n)
	for i := range ids {
		ids[i] = bson.NewObjectID()
		if _, err := accounts.InsertOne(t.Context(), bson.M{"_id": ids[i], "balance": 100}); err != nil {
			t.Fatal(err)
		}
	}
	return accounts, ids
}

func balance(t *testing.T, accounts *mongo.Collection, id bson.ObjectID) int {
	t.Helper()
	var a account
	if err := accounts.FindOne(t.Context(), bson.M{"_id": id}).Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.Pending != nil {
		t.Errorf("a payment is pending: %v", a.Pending)
	}
	return a.Balance
}

func TestTransfersInACircle(t *testing.T) {
	accounts, ids := newAccounts(t, 3)
	lockers := []*writelock.Locker{open(t, accounts), open(t, accounts)}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if err := transfer(t.Context(), lockers[i%2], ids[i%3], ids[(i+1)%3], 5); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if got := balance(t, accounts, id); got != 100 {
			t.Errorf("the balance is %d", got)
		}
	}
}

// The locks are gone before one of the three writes, as after a stop of the
// process. The next transfer finishes the payment, once.
func TestTheNextTransferFinishesAPayment(t *testing.T) {
	for lostAt := range 3 {
		accounts, ids := newAccounts(t, 2)
		locks := open(t, accounts)
		sent := 0
		client := mongotest.Client(t, options.Client().SetMonitor(&event.CommandMonitor{
			Started: func(_ context.Context, command *event.CommandStartedEvent) {
				if command.CommandName != "findAndModify" {
					return
				}
				if sent++; sent == 2+lostAt+1 { // after two acquires
					if _, err := accounts.UpdateMany(t.Context(), bson.M{}, bson.M{"$unset": bson.M{"lock.tags": 1}}); err != nil {
						t.Error(err)
					}
				}
			},
		}))
		disturbed := open(t, client.Database(accounts.Database().Name()).Collection(accounts.Name()))
		if err := transfer(t.Context(), disturbed, ids[0], ids[1], 30); !errors.Is(err, doclock.ErrLost) {
			t.Fatalf("transfer: %v, want ErrLost", err)
		}
		want := 10
		if lostAt > 0 { // the payment was written down
			want += 30
		}
		if err := transfer(t.Context(), locks, ids[0], ids[1], 10); err != nil {
			t.Fatal(err)
		}
		if a, b := balance(t, accounts, ids[0]), balance(t, accounts, ids[1]); a != 100-want || b != 100+want {
			t.Errorf("lost before write %d: the balances are %d and %d", lostAt+1, a, b)
		}
	}
}

// Four programs are cut off from the server again and again, for less and for more than
// their leases last, in the middle of transfers. The sum never changes.
func TestTheSumNeverChanges(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		accounts, ids := newAccounts(t, 5)
		ctx, end := context.WithTimeout(t.Context(), 4*time.Minute)
		defer end()
		var all sync.WaitGroup
		var done, failed, lost atomic.Int64
		for range 4 {
			net := faultnet.New()
			net.Delay(100 * time.Millisecond)
			client := mongotest.Client(t, options.Client().SetDialer(net).SetRetryWrites(false))
			locks := open(t, client.Database(accounts.Database().Name()).Collection(accounts.Name()))
			all.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(rand.N(30 * time.Second))
					net.Down(true)
					time.Sleep(rand.N(90 * time.Second))
					net.Down(false)
				}
			})
			for range 2 {
				all.Go(func() {
					for ctx.Err() == nil {
						two := rand.Perm(len(ids))
						err := transfer(t.Context(), locks, ids[two[0]], ids[two[1]], 1+rand.N(30))
						switch {
						case err == nil:
							done.Add(1)
						case errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown):
							lost.Add(1)
						default:
							failed.Add(1)
							time.Sleep(time.Second)
						}
					}
				})
			}
		}
		all.Wait()
		sum, locks := 0, open(t, accounts)
		for i, id := range ids {
			if err := transfer(t.Context(), locks, id, ids[(i+1)%len(ids)], 0); err != nil { // it finishes what is pending
				t.Error(err)
			}
		}
		for _, id := range ids {
			sum += balance(t, accounts, id)
		}
		t.Logf("%d transfers, %d without a lock, %d after a loss", done.Load(), failed.Load(), lost.Load())
		if sum != 100*len(ids) || done.Load() < 20 {
			t.Errorf("the sum is %d", sum)
		}
	})
}

func TestTooLittle(t *testing.T) {
	accounts, ids := newAccounts(t, 2)
	if err := transfer(t.Context(), open(t, accounts), ids[0], ids[1], 101); !errors.Is(err, errTooLittle) {
		t.Errorf("transfer: %v", err)
	}
	if got := balance(t, accounts, ids[0]); got != 100 {
		t.Errorf("the balance is %d", got)
	}
}
