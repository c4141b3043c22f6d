package attempt_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A command that outlives its caller must not use the caller's session at the
// same time as the caller.
func TestDetachedLeavesTheSessionToItsCaller(t *testing.T) {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/")) // nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	session, err := client.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	ctx := mongo.NewSessionContext(t.Context(), session)
	if mongo.SessionFromContext(attempt.Detached(ctx)) != nil {
		t.Error("a detached context has the caller's session")
	}
	_, err = attempt.Once(ctx, time.Second, func(ctx context.Context) error {
		if mongo.SessionFromContext(ctx) != nil {
			t.Error("an attempt has the caller's session")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
