package doclock_test

import (
	"testing"

	"github.com/doclock/doclock"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestIDIsTheFilterOfOneDocument(t *testing.T) {
	if diff := cmp.Diff(bson.D{{Key: "_id", Value: "invoices"}}, doclock.ID("invoices")); diff != "" {
		t.Error(diff)
	}
}
