// Command multilock points a contact to a category that nobody can delete
// meanwhile.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

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
	categories, contacts := client.Database("book").Collection("categories"), client.Database("book").Collection("contacts")
	locks, err := multilock.New(categories, relations.WritePreferring())
	check(err)
	friends, ada := bson.M{"_id": "friends"}, bson.M{"_id": "ada"}
	_, err = categories.UpdateOne(ctx, friends, bson.M{"$set": bson.M{"name": "Friends"}}, options.UpdateOne().SetUpsert(true))
	check(err)

	// Many may hold "read" at once; whoever deletes the category holds "write".
	check(locks.Do(ctx, friends, "read", func(ctx context.Context, _ *doclock.Lease) error {
		_, err := contacts.UpdateOne(ctx, ada, bson.M{"$addToSet": bson.M{"categories": "friends"}}, options.UpdateOne().SetUpsert(true))
		return err
	})) // doclock.ErrNotFound: the category has been deleted
	fmt.Println("ada is a friend")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
