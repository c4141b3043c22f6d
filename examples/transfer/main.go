// Command transfer moves money between two accounts, there and back at the same
// time. The function to copy is in bank.go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil { // it may have the URI's password in it
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	accounts := client.Database("bank").Collection("accounts")
	locks, err := writelock.New(accounts)
	check(err)
	ann, bob := bson.NewObjectID(), bson.NewObjectID()
	_, err = accounts.InsertMany(ctx, []any{bson.M{"_id": ann, "balance": 100}, bson.M{"_id": bob, "balance": 100}})
	check(err)

	back := make(chan error)
	go func() { back <- transfer(ctx, locks, bob, ann, 10) }()
	check(transfer(ctx, locks, ann, bob, 30))
	check(<-back)
	fmt.Println("too much:", transfer(ctx, locks, ann, bob, 1000))
	fmt.Println("to itself:", transfer(ctx, locks, ann, ann, 10))
	for _, id := range []bson.ObjectID{ann, bob} {
		var a account
		check(accounts.FindOne(ctx, bson.M{"_id": id}).Decode(&a))
		fmt.Println("balance:", a.Balance)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
