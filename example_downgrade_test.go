package doclock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A writer that has changed a category goes on as a reader. Other readers come in,
// and no other writer was there in between.
func ExampleLease_downgrade() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	categories := mem.Collection("categories", bson.M{"_id": "friends"})
	locks, err := multilock.New(categories, relations.WritePreferring())
	check(err)

	writer, err := locks.Acquire(ctx, doclock.ID("friends"), "write")
	check(err)
	check(writer.Update(ctx, bson.M{"$set": bson.M{"name": "Friends"}}))

	reader, err := writer.Downgrade(ctx, "read")
	check(err)
	working := reader.KeepAlive(ctx) // the writer's own has ended

	another, err := locks.TryAcquire(ctx, doclock.ID("friends"), "read")
	check(err)
	fmt.Println("tags:", reader.Tag(), another.Tag())
	fmt.Println("the work goes on:", working.Err() == nil)
	fmt.Println("the token is greater:", reader.Fence() > writer.Fence())
	check(another.Release(ctx))
	check(reader.Release(ctx))
	// Output:
	// tags: read read
	// the work goes on: true
	// the token is greater: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
