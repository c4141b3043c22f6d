// Command editform is a web application in which one person at a time edits a
// page. Two replicas serve it, behind a proxy that takes them in turn. A lock is
// held from the opening of the form to the last save, whichever replica answers.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where the application listens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	var replicas []*url.URL
	for _, name := range []string{"replica 1", "replica 2"} { // each with its own client and Locker, as two processes have
		client, err := mongo.Connect(options.Client().ApplyURI(uri))
		check(err)
		pages := client.Database("wiki").Collection("pages")
		_, err = pages.UpdateOne(ctx, doclock.ID("welcome"),
			bson.M{"$setOnInsert": bson.M{"text": "Welcome.", "saves": 0}}, options.UpdateOne().SetUpsert(true))
		check(err)
		r, err := newReplica(name, pages)
		check(err)
		address, _ := serve(ctx, "127.0.0.1:0", r.routes())
		replicas = append(replicas, &url.URL{Scheme: "http", Host: address})
	}
	address, ended := serve(ctx, *listen, inTurn(replicas))
	fmt.Printf("edit http://%s/welcome (Ctrl-C ends)\n", address)
	<-ended
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
