package otel_test

import (
	"context"
	"log"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/otel"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A program that has set up OpenTelemetry needs two lines.
func ExampleNew() {
	var orders *mongo.Collection // of the program's database

	observer, err := otel.New() // of the global providers
	check(err)
	locks, err := writelock.New(orders, doclock.OnEvent(observer.Observe))
	check(err)
	lease, err := locks.Acquire(context.TODO(), bson.M{"_id": "A-17"})
	check(err)
	check(lease.Release(context.TODO()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
