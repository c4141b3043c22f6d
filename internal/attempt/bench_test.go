package attempt_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// BenchmarkRun measures the cost of running a command beside its caller.
// "plains" is the ratio of its median to that of the same command in the
// caller's own goroutine; the two run in turn. Without growStack it is two to
// three hundredths more.
func BenchmarkRun(b *testing.B) {
	docs := mongotest.Database(b).Collection("documents")
	if _, err := docs.InsertOne(b.Context(), bson.M{"_id": 1, "a": 1}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context()) // the caller could give up
	defer cancel()
	plain := func() error {
		return docs.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"a": 1}}).Err()
	}
	var group attempt.Group
	var alone, beside []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := plain(); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		if err, gaveUp := attempt.Run(ctx, &group, plain, func(error) {}); err != nil || gaveUp != nil {
			b.Fatal(err, gaveUp)
		}
		alone, beside = append(alone, between.Sub(start)), append(beside, time.Since(between))
	}
	b.ReportMetric(float64(median(beside))/float64(median(alone)), "plains")
	b.ReportMetric(0, "ns/op")
}

func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}
