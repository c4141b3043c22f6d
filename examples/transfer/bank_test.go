package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A bank has accounts with 100 each, on a server in memory.
type bank struct {
	*testing.T
	mem      *locktest.Server
	accounts *mongo.Collection
	ids      []bson.ObjectID
}

func newBank(t *testing.T, accounts int) *bank {
	b := &bank{T: t, mem: locktest.New(t)}
	var documents []any
	for range accounts {
		b.ids = append(b.ids, bson.NewObjectID())
		documents = append(documents, bson.M{"_id": b.ids[len(b.ids)-1], "balance": 100})
	}
	b.accounts = b.mem.Collection("accounts", documents...)
	return b
}

// program has a client of its own, which calls before before each command.
func (b *bank) program(before func(client *mongo.Client, command string)) *writelock.Locker {
	var client *mongo.Client
	client = b.mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) { before(client, e.CommandName) },
	}))
	locks, err := writelock.New(client.Database("test").Collection("accounts"))
	check(err)
	b.Cleanup(func() { check(locks.Close(context.Background())) })
	return locks
}

func (b *bank) balance(id bson.ObjectID) int {
	var a account
	check(b.accounts.FindOne(b.Context(), doclock.ID(id)).Decode(&a))
	if a.Pending != nil {
		b.Errorf("a payment is pending: %v", a.Pending)
	}
	return a.Balance
}

// The locks are gone before one of the three writes, as after a stop of the
// process. The next transfer finishes the payment, once.
func TestTheNextTransferFinishesAPayment(t *testing.T) {
	for lostAt := range 3 {
		b := newBank(t, 2)
		sent := 0
		disturbed := b.program(func(_ *mongo.Client, command string) {
			if command != "findAndModify" {
				return
			}
			if sent++; sent == 2+lostAt+1 { // after two acquires
				_, err := b.accounts.UpdateMany(t.Context(), bson.M{}, bson.M{"$unset": bson.M{"lock.tags": 1}})
				check(err)
			}
		})
		if err := transfer(t.Context(), disturbed, b.ids[0], b.ids[1], 30); !errors.Is(err, doclock.ErrLost) {
			t.Fatalf("transfer: %v, want ErrLost", err)
		}
		want := 10
		if lostAt > 0 { // the payment was written down
			want += 30
		}
		check(transfer(t.Context(), b.program(func(*mongo.Client, string) {}), b.ids[0], b.ids[1], 10))
		if from, to := b.balance(b.ids[0]), b.balance(b.ids[1]); from != 100-want || to != 100+want {
			t.Errorf("lost before write %d: the balances are %d and %d", lostAt+1, from, to)
		}
	}
}

// Four programs are cut off from the server again and again, for less and for more than
// their leases last, in the middle of transfers among five accounts, in all directions.
// The sum never changes.
func TestTheSumNeverChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t, 5)
		end := time.Now().Add(4 * time.Minute)
		var all sync.WaitGroup
		var done, failed, lost atomic.Int64
		for range 4 {
			locks := b.program(func(client *mongo.Client, _ string) {
				time.Sleep(rand.N(100 * time.Millisecond))
				if rand.N(30) == 0 && time.Now().Before(end) {
					b.mem.Cut(client)
					time.AfterFunc(rand.N(90*time.Second), func() { b.mem.Reconnect(client) })
				}
			})
			for range 2 {
				all.Go(func() {
					for time.Now().Before(end) {
						two := rand.Perm(len(b.ids))
						err := transfer(t.Context(), locks, b.ids[two[0]], b.ids[two[1]], 1+rand.N(30))
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
		sum, locks := 0, b.program(func(*mongo.Client, string) {})
		for i, id := range b.ids { // a transfer of nothing finishes what is pending
			check(transfer(t.Context(), locks, id, b.ids[(i+1)%len(b.ids)], 0))
		}
		for _, id := range b.ids {
			sum += b.balance(id)
		}
		t.Logf("%d transfers, %d without a lock, %d after a loss", done.Load(), failed.Load(), lost.Load())
		if sum != 100*len(b.ids) || done.Load() < 10 || lost.Load() == 0 {
			t.Errorf("the sum is %d", sum)
		}
	})
}
