package otel

import (
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	meternoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracernoop "go.opentelemetry.io/otel/trace/noop"
)

// BenchmarkObserve is the cost of one event: of a grant and the release of its lease, which are the two events of an
// uncontended lock; of a renewal; and of a refusal.
func BenchmarkObserve(b *testing.B) {
	meters := WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	untraced := WithTracerProvider(tracernoop.NewTracerProvider())
	granted, released := lifetime(1, doclock.EventReleased, nil)
	granted.Holders = nil
	_, no := lifetime(0, refused, errors.Join(doclock.ErrNotAcquired, conflict))
	for _, c := range []struct {
		name string
		opts []Option
	}{
		{"no-op", []Option{WithMeterProvider(meternoop.NewMeterProvider()), untraced}},
		{"metrics", []Option{meters, untraced}},
		{"metrics and unsampled spans", []Option{meters, WithTracerProvider(trace.NewTracerProvider(trace.WithSampler(trace.NeverSample())))}},
		{"metrics and spans", []Option{meters, WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(tracetest.NewNoopExporter())))}},
	} {
		observer, err := New(c.opts...)
		if err != nil {
			b.Fatal(err)
		}
		for name, events := range map[string][]doclock.Event{
			"grant and release": {granted, released}, "renewal": {event(1, doclock.EventRenewed, 0)}, "refusal": {no},
		} {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for n := range b.N {
					observer.Observe(context.Background(), events[n%len(events)])
				}
			})
		}
	}
}
