package ticks

import (
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Locks makes a Locker that must come to rest before the test is over.
func Locks(t *testing.T, coll *mongo.Collection) *writelock.Locker {
	t.Helper()
	l, err := writelock.New(coll, doclock.Upsert())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(fixture.Bounded(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}
