// Command multilock points a contact to a category that nobody can delete
// meanwhile.
package main

import (
	"context"
	"fmt"
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
	client, _ := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	book := client.Database("book")
	locks, _ := multilock.New(book.Collection("categories"), relations.WritePreferring())

	// Many may hold "read" at once; who deletes the category holds "write".
	err := locks.Do(ctx, bson.M{"_id": "friends"}, "read", func(ctx context.Context, _ *doclock.Lease) error {
		_, err := book.Collection("contacts").UpdateByID(ctx, "ada", bson.M{"$addToSet": bson.M{"categories": "friends"}})
		return err
	})
	fmt.Println(err) // doclock.ErrNotFound: no such category (any more)
}
