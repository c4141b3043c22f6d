package locktest_test

import (
	"testing"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What an acquire and a release cost in memory: the library, the driver, and the
// server.
func BenchmarkAcquireAndRelease(b *testing.B) {
	locks := locker(b, collection(b, locktest.New(b), bson.M{"_id": 1}))
	for b.Loop() {
		lease, err := locks.TryAcquire(b.Context(), order)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
