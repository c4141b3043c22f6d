// Command contact adds a contact to a category while the category is being
// deleted. Either order is right; a contact of a deleted category is not.
// The two functions to copy are in book/book.go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/doclock/doclock/examples/contact/book"
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
	db := client.Database("book")
	b, err := book.Open(db)
	check(err)
	friends := bson.NewObjectID()
	_, err = db.Collection("categories").InsertOne(ctx, bson.M{"_id": friends, "name": "Friends"})
	check(err)

	added := make(chan error)
	go func() { added <- b.AddContact(ctx, "Ada", friends) }()
	deleted := b.DeleteCategory(ctx, friends)
	fmt.Println("add Ada to Friends:", <-added)
	fmt.Println("delete Friends:", deleted)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
