package otel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/otel"
	meternoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	tracernoop "go.opentelemetry.io/otel/trace/noop"
)

// BenchmarkObserve is the cost of one event: of a grant and the release of its
// lease, which are the two events of an uncontended lock; of a renewal; and of a
// refusal.
func BenchmarkObserve(b *testing.B) {
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(discard{}))
	unsampled := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	for _, c := range []struct {
		name string
		opts []otel.Option
	}{
		{"no-op", []otel.Option{otel.WithMeterProvider(meternoop.NewMeterProvider()), otel.WithTracerProvider(tracernoop.NewTracerProvider())}},
		{"metrics", []otel.Option{otel.WithMeterProvider(meters), otel.WithTracerProvider(tracernoop.NewTracerProvider())}},
		{"metrics and unsampled spans", []otel.Option{otel.WithMeterProvider(meters), otel.WithTracerProvider(unsampled)}},
		{"metrics and spans", []otel.Option{otel.WithMeterProvider(meters), otel.WithTracerProvider(tracers)}},
	} {
		observer, err := otel.New(c.opts...)
		if err != nil {
			b.Fatal(err)
		}
		granted, released := lifetime(1, doclock.EventReleased, nil)
		granted.Holders = nil
		b.Run("grant and release/"+c.name, func(b *testing.B) { observeAll(b, observer, granted, released) })
		b.Run("renewal/"+c.name, func(b *testing.B) { observeAll(b, observer, leased(1, doclock.EventRenewed, 0)) })
		refused := event(doclock.EventRefused, time.Second)
		refused.Err = errors.Join(doclock.ErrNotAcquired, conflict)
		b.Run("refusal/"+c.name, func(b *testing.B) { observeAll(b, observer, refused) })
	}
}

// observeAll reports ns and allocations for each event.
func observeAll(b *testing.B, observer *otel.Observer, events ...doclock.Event) {
	ctx := context.Background()
	b.ReportAllocs()
	for n := 0; n < b.N; n++ {
		observer.Observe(ctx, events[n%len(events)])
	}
}

// discard is where ended spans go.
type discard struct{}

func (discard) OnStart(context.Context, trace.ReadWriteSpan) {}
func (discard) OnEnd(trace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error               { return nil }
func (discard) ForceFlush(context.Context) error             { return nil }
