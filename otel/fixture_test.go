package otel_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/otel"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// noon is when the synthetic events begin.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// rig is an Observer, and what it has recorded.
type rig struct {
	testing.TB
	*otel.Observer
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func newRig(t testing.TB, opts ...trace.TracerProviderOption) *rig {
	r := &rig{TB: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	r.tracer = trace.NewTracerProvider(append(opts, trace.WithSpanProcessor(r.spans))...)
	observer, err := otel.New(
		otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(r.reader))),
		otel.WithTracerProvider(r.tracer))
	if err != nil {
		t.Fatal(err)
	}
	r.Observer = observer
	return r
}

func (r *rig) observe(events ...doclock.Event) {
	for _, e := range events {
		r.Observe(context.Background(), e)
	}
}

// inSpan observes the events of a caller whose span it returns.
func (r *rig) inSpan(events ...doclock.Event) trace.ReadOnlySpan {
	ctx, span := r.tracer.Tracer("caller").Start(context.Background(), "caller")
	for _, e := range events {
		r.Observe(ctx, e)
	}
	span.End()
	return span.(trace.ReadOnlySpan)
}

// metrics are what was recorded, by name.
func (r *rig) metrics() map[string]metricdata.Metrics {
	r.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &all); err != nil {
		r.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// points are the values of all metrics, as "name{labels}": a counter's value, or a
// histogram's count and sum. Zeroes are left out, and so are the labels of the
// collection, which all have.
func (r *rig) points() map[string]string {
	r.Helper()
	points := map[string]string{}
	for name, m := range r.metrics() {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				if p.Value != 0 {
					points[name+short(p.Attributes)] = fmt.Sprint(p.Value)
				}
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				points[name+short(p.Attributes)] = fmt.Sprintf("%d in %gs", p.Count, p.Sum)
			}
		default:
			r.Fatalf("%s is a %T", name, data)
		}
	}
	return points
}

func short(set attribute.Set) string {
	var texts []string
	for _, a := range set.ToSlice() {
		if key, own := strings.CutPrefix(string(a.Key), "doclock."); own || a.Key == "error.type" {
			texts = append(texts, key+"="+a.Value.String())
		}
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// ended are the spans that have ended since the last call.
func (r *rig) ended() []trace.ReadOnlySpan {
	ended := r.spans.Ended()
	r.spans.Reset()
	return slices.DeleteFunc(ended, func(s trace.ReadOnlySpan) bool { return s.Name() == "caller" })
}

// attr is a span's attribute as text, and whether it is there.
func attr(s trace.ReadOnlySpan, key attribute.Key) (string, bool) {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.String(), true
		}
	}
	return "", false
}

func leaseID(n int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

func documentID(id any) bson.RawValue {
	kind, data, err := bson.MarshalValue(id)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

// event is an event of an acquire, some time after noon.
func event(kind doclock.EventKind, after time.Duration) doclock.Event {
	return doclock.Event{
		Kind: kind, Time: noon.Add(after),
		Collection: "shop.orders", DocumentID: documentID("A-17"), Tag: "write", Owner: "host/4711/api",
	}
}

// leased is an event of the lease with this number.
func leased(n int, kind doclock.EventKind, after time.Duration) doclock.Event {
	e := event(kind, after)
	e.LeaseID, e.Fence = leaseID(n), int64(1000+n)
	return e
}

func (r *rig) equal(what string, got, want any) {
	r.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("%s: got %v, want %v", what, got, want)
	}
}
