// Command payment charges an order once, however many requests ask for it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type order struct {
	ID      bson.ObjectID `bson:"_id"`
	Total   int           `bson:"total"`
	Receipt string        `bson:"receipt,omitempty"` // of the payment; empty before it
}

// pay charges an order that is not paid yet. The lock is renewed during the
// call. The provider must know the order's id: a process that dies between the
// call and the write leaves an order that is charged and not marked.
func pay(ctx context.Context, locks *writelock.Locker, id bson.ObjectID) error {
	var o order
	return locks.Do(ctx, doclock.ID(id), func(ctx context.Context, lease *doclock.Lease) error {
		if o.Receipt != "" {
			return nil // another request has paid it
		}
		receipt, err := charge(ctx, o.ID, o.Total)
		if err != nil {
			return err
		}
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"receipt": receipt}})
	}, doclock.Into(&o))
}

func main() {
	ctx := context.Background()
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(err)
	orders := client.Database("shop").Collection("orders")
	locks, err := writelock.New(orders)
	check(err)
	o := order{ID: bson.NewObjectID(), Total: 30}
	_, err = orders.InsertOne(ctx, o)
	check(err)

	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() { check(pay(ctx, locks, o.ID)) })
	}
	requests.Wait()
	check(orders.FindOne(ctx, doclock.ID(o.ID)).Decode(&o))
	fmt.Printf("3 requests, %d charge, %s\n", charges.Load(), o.Receipt)
}

var charges atomic.Int32

// charge stands for the payment provider, which takes its time.
func charge(_ context.Context, _ bson.ObjectID, total int) (receipt string, err error) {
	time.Sleep(100 * time.Millisecond)
	return fmt.Sprintf("receipt %d for %d EUR", charges.Add(1), total), nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
