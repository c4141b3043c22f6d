package otel_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/otel"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
)

// These benchmarks have the same work done without an observer and with each kind
// of observer: on the server, and in memory, where no network hides the cost.
//
//	go test -C otel -run '^$' -bench 'Pair|Hot' -benchtime 3000x -count 3 .

// BenchmarkPair is an acquire and its release, without contention.
func BenchmarkPair(b *testing.B) {
	observed(b, func(b *testing.B, locks *writelock.Locker) {
		for b.Loop() {
			lease, err := locks.TryAcquire(b.Context(), doclock.ID(1))
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHot64 is a read-modify-write of one document by 64 goroutines.
func BenchmarkHot64(b *testing.B) {
	observed(b, func(b *testing.B, locks *writelock.Locker) {
		b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				var doc struct{ Count int }
				lease, err := locks.Acquire(context.Background(), doclock.ID(1), doclock.Into(&doc))
				if err != nil {
					b.Error(err)
					return
				}
				if err := lease.UpdateAndRelease(context.Background(), bson.M{"$set": bson.M{"count": doc.Count + 1}}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// observed runs a benchmark with each observer, in both places.
func observed(b *testing.B, run func(*testing.B, *writelock.Locker)) {
	observer, err := otel.New(
		otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
		otel.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(discard{}))))
	if err != nil {
		b.Fatal(err)
	}
	memory := locktest.New().Client().Database("cost").Collection("documents")
	for _, place := range []struct {
		name string
		coll *mongo.Collection
	}{{"memory", memory}, {"server", mongotest.Database(b).Collection("documents")}} {
		if _, err := place.coll.InsertOne(b.Context(), bson.M{"_id": 1, "count": 0}); err != nil {
			b.Fatal(err)
		}
		for _, o := range []struct {
			name string
			opts []doclock.Option
		}{
			{"none", nil},
			{"slog", []doclock.Option{doclock.LogTo(slog.New(slog.NewTextHandler(io.Discard, nil)))}},
			{"slog, debug", []doclock.Option{doclock.LogTo(slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})))}},
			{"OTel", []doclock.Option{doclock.OnEvent(observer.Observe)}},
		} {
			b.Run(place.name+"/"+o.name, func(b *testing.B) {
				locks, err := writelock.New(place.coll, o.opts...)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				run(b, locks)
			})
		}
	}
}
