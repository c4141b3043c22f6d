// Command editform is a web application in which one person at a time edits a
// page. Two replicas serve it in turn. A lock is held from the opening of the form
// to the last save, whichever replica answers.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"

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
	var replicas []http.Handler
	for _, name := range []string{"replica 1", "replica 2"} { // each with its own client and Locker, as two processes have
		client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
		if err != nil { // it may have the URI's password in it
			log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
		}
		pages := client.Database("wiki").Collection("pages")
		_, err = pages.UpdateOne(ctx, doclock.ID("welcome"),
			bson.M{"$setOnInsert": bson.M{"text": "Welcome.", "saves": 0}}, options.UpdateOne().SetUpsert(true))
		check(err)
		r, err := newReplica(name, pages)
		check(err)
		replicas = append(replicas, r.routes())
	}
	listener, err := net.Listen("tcp", *listen)
	check(err)
	go func() { log.Fatal(http.Serve(listener, inTurn(replicas))) }()
	fmt.Printf("edit http://%s/welcome (Ctrl-C ends)\n", listener.Addr())
	<-ctx.Done()
}

// inTurn sends each request to the next replica, as a proxy does.
func inTurn(replicas []http.Handler) http.Handler {
	var requests atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		replicas[requests.Add(1)%uint64(len(replicas))].ServeHTTP(w, req)
	})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
