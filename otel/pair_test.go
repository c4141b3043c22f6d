package otel_test

import (
	"io"
	"log/slog"
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

// BenchmarkPair is an acquire and its release, without an observer and with each
// kind: on the server, and in memory, where no network hides the cost.
func BenchmarkPair(b *testing.B) {
	observer, err := otel.New(
		otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
		otel.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(discard{}))))
	if err != nil {
		b.Fatal(err)
	}
	observed := []struct {
		name string
		opts []doclock.Option
	}{
		{"none", nil},
		{"slog", []doclock.Option{doclock.LogTo(slog.New(slog.NewTextHandler(io.Discard, nil)))}},
		{"slog, debug", []doclock.Option{doclock.LogTo(slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})))}},
		{"OTel", []doclock.Option{doclock.OnEvent(observer.Observe)}},
	}
	memory, err := locktest.New().Collection("pair", bson.M{"_id": 1})
	if err != nil {
		b.Fatal(err)
	}
	server := mongotest.Database(b).Collection("pair")
	if _, err := server.InsertOne(b.Context(), bson.M{"_id": 1}); err != nil {
		b.Fatal(err)
	}
	for place, coll := range map[string]*mongo.Collection{"memory": memory, "server": server} {
		for _, o := range observed {
			b.Run(place+"/"+o.name, func(b *testing.B) {
				locks, err := writelock.New(coll, o.opts...)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
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
	}
}
