package multilock_test

import (
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A collection that was never written to doesn't have the document.
func TestNoCollectionIsNotFound(t *testing.T) {
	locks, err := multilock.New(mongotest.Database(t).Collection("nothing"), relations.Fair())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.TryAcquire(t.Context(), bson.M{"_id": 1}, "read"); !errors.Is(err, doclock.ErrNotFound) {
		t.Errorf("TryAcquire = %v", err)
	}
	if _, err := doclock.CheckServer(t.Context(), mongotest.Database(t).Collection("nothing")); err != nil {
		t.Errorf("CheckServer = %v", err)
	}
}
