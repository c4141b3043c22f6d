package routertest

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestLabelsAreLeftOut(t *testing.T) {
	answer := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 91}, {Key: "errorLabels", Value: bson.A{"RetryableWriteError"}}}
	got := (&Router{}).pass(bson.D{{Key: "update", Value: "things"}}, answer)
	if lookup(got, "errorLabels") != nil || lookup(got, "code") != 91 {
		t.Errorf("%v", got)
	}
}
