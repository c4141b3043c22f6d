// Command customercalls makes three calls at a time for a customer at most, over all processes.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx := context.Background()
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(err)
	customers := client.Database("crm").Collection("customers")
	acme := bson.NewObjectID()
	_, err = customers.InsertOne(ctx, bson.M{"_id": acme, "name": "Acme"})
	check(err)

	var calls sync.WaitGroup
	for range 2 { // two servers that know nothing of each other
		locks, err := multilock.New(customers, relations.Semaphore(3))
		check(err)
		for range 6 {
			calls.Go(func() { check(callInTurn(ctx, locks, acme)) })
		}
	}
	calls.Wait()
	if most > 3 {
		log.Fatalf("%d calls at a time", most)
	}
	fmt.Println("12 calls, never more than 3 at a time")
}

func callInTurn(ctx context.Context, locks *multilock.Locker, customer bson.ObjectID) error {
	return locks.Do(ctx, doclock.ID(customer), "slot", func(ctx context.Context, _ *doclock.Lease) error {
		return call(ctx, customer)
	})
}

var (
	mu            sync.Mutex
	running, most int
)

// call stands for a call to the customer's own server, which bears three at a time.
func call(context.Context, bson.ObjectID) error {
	count := func(more int) {
		mu.Lock()
		defer mu.Unlock()
		running += more
		most = max(most, running)
	}
	count(1)
	defer count(-1)
	time.Sleep(100 * time.Millisecond)
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
