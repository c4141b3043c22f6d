package otel

import (
	"cmp"
	"context"
	"errors"

	"github.com/doclock/doclock"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package as the origin of its metrics and spans.
const scope = "github.com/doclock/doclock/otel"

// Observer turns the events of any number of Lockers into metrics and spans. It is
// safe for concurrent use. It starts no goroutine and needs no Close: the program
// flushes and shuts down the providers that it has made.
type Observer struct {
	metrics *instruments
	tracer  trace.Tracer
	labels  *labels
	leases  *leases
}

// Option sets where the metrics or the spans go.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
}

// WithMeterProvider sets where the metrics go. Default, and for nil: the global
// MeterProvider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(c *config) { c.meters = provider }
}

// WithTracerProvider sets where the spans go. Default, and for nil: the global
// TracerProvider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.tracers = provider }
}

// New makes an Observer. The error is the MeterProvider's, if it refuses an
// instrument.
//
//	observer, err := otel.New()
//	locks, err := writelock.New(orders, doclock.OnEvent(observer.Observe))
func New(opts ...Option) (*Observer, error) {
	var c config
	for _, opt := range opts {
		opt(&c)
	}
	metrics, err := newInstruments(cmp.Or(c.meters, otel.GetMeterProvider()).Meter(scope))
	if err != nil {
		return nil, err
	}
	tracer := cmp.Or(c.tracers, otel.GetTracerProvider()).Tracer(scope)
	return &Observer{metrics: metrics, tracer: tracer, labels: &labels{metrics: metrics}, leases: newLeases()}, nil
}

// Observe records one event. The Lockers that share the Observer may call it
// concurrently. It waits for nothing but the providers, which only put the values
// aside. The span in ctx is the parent of the event's spans, and ctx's other values
// reach the providers. An event of a kind that package doclock doesn't list is
// ignored.
func (o *Observer) Observe(ctx context.Context, e doclock.Event) {
	if e.Dropped > 0 {
		o.metrics.dropped.Add(ctx, int64(e.Dropped), o.labels.findCollection(e))
	}
	switch e.Kind {
	case doclock.EventWaiting:
		if e.How == doclock.HowStill {
			o.metrics.longWaits.Add(ctx, 1, o.labels.find(ctx, e))
		}
	case doclock.EventSkipped:
		o.metrics.skipped.Add(ctx, 1, o.labels.find(ctx, e))
	case doclock.EventGranted, doclock.EventNotGranted:
		o.acquired(ctx, e)
	case doclock.EventRenewed:
		o.metrics.renewals.Add(ctx, 1, o.labels.find(ctx, e))
	case doclock.EventRenewalFailed:
		o.metrics.renewalFailures.Add(ctx, 1, o.labels.find(ctx, e))
		o.leases.note(e)
	case doclock.EventOutcomeUnknown:
		o.metrics.unknown.Add(ctx, 1, o.labels.find(ctx, e))
		o.leases.note(e)
	case doclock.EventTransaction:
		o.metrics.transaction.Record(ctx, e.Waited.Seconds(), o.labels.findOutcome(e))
	case doclock.EventCleanUpFailed:
		o.metrics.cleanUpFailures.Add(ctx, 1, o.labels.find(ctx, e))
	case doclock.EventLost:
		o.metrics.losses.Add(ctx, 1, o.labels.find(ctx, e))
		o.ended(ctx, e)
	case doclock.EventReleased:
		o.ended(ctx, e)
	}
}

func (o *Observer) acquired(ctx context.Context, e doclock.Event) {
	parent := trace.SpanContextFromContext(ctx)
	ctx, span := o.acquireSpan(ctx, e)
	defer endSpan(span, e)
	plain := o.labels.find(ctx, e)
	o.metrics.wait.Record(ctx, e.Waited.Seconds(), o.labels.findOutcome(e))
	o.metrics.commands.Add(ctx, int64(e.Commands), plain)
	if len(e.Holders) > 0 || errors.Is(e.Err, doclock.ErrConflict) {
		o.metrics.conflicts.Add(ctx, 1, plain)
	}
	if e.Kind != doclock.EventGranted {
		return
	}
	o.metrics.active.Add(ctx, 1, plain)
	if !parent.IsValid() { // the hold joins the acquire's trace
		parent = span.SpanContext()
	}
	if parent.IsValid() { // else nothing is traced
		o.leases.began(e, parent)
	}
}

func (o *Observer) ended(ctx context.Context, e doclock.Event) {
	ctx, span := o.holdSpan(ctx, e)
	defer endSpan(span, e)
	plain := o.labels.find(ctx, e)
	o.metrics.hold.Record(ctx, e.Held.Seconds(), o.labels.findOutcome(e))
	o.metrics.commands.Add(ctx, int64(e.Commands), plain)
	o.metrics.active.Add(ctx, -1, plain)
}
