package locktest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

var ctx = context.Background()

func TestMain(m *testing.M) { mongotest.Main(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func collection(t testing.TB, mem *locktest.Server, documents ...any) *mongo.Collection {
	t.Helper()
	return mem.Collection("orders", documents...)
}

// locker is one program's. What it left to the background is done before the test
// ends.
func locker(t testing.TB, coll *mongo.Collection, opts ...doclock.Option) *writelock.Locker {
	t.Helper()
	locks, err := writelock.New(coll, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, fixture.Rested(locks.Close(context.Background()))) })
	return locks
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
