package otel

import (
	"context"
	"testing"

	"github.com/doclock/doclock"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// BenchmarkObserve is the cost of one event: of a grant and the release of its lease, which are the two events of an
// uncontended lock, and of a renewal.
func BenchmarkObserve(b *testing.B) {
	meters := WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	granted, released := lifetime(1, doclock.EventReleased, nil)
	granted.Holders = nil
	for with, tracers := range map[string]api.TracerProvider{
		"metrics":           noop.NewTracerProvider(),
		"metrics and spans": trace.NewTracerProvider(trace.WithSyncer(tracetest.NewNoopExporter())),
	} {
		observer, err := New(meters, WithTracerProvider(tracers))
		if err != nil {
			b.Fatal(err)
		}
		for name, events := range map[string][]doclock.Event{"grant and release": {granted, released}, "renewal": {event(1, doclock.EventRenewed, 0)}} {
			b.Run(name+"/"+with, func(b *testing.B) {
				b.ReportAllocs()
				for n := range b.N {
					observer.Observe(context.Background(), events[n%len(events)])
				}
			})
		}
	}
}
