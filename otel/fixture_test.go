package otel

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when the synthetic events begin.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// rig is an Observer, and what it has recorded.
type rig struct {
	testing.TB
	*Observer
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	r.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(r.spans))
	var err error
	r.Observer, err = New(WithMeterProvider(metric.NewMeterProvider(metric.WithReader(r.reader))), WithTracerProvider(r.tracer))
	if err != nil {
		t.Fatal(err)
	}
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

// ended are the spans that have ended since the last call, without those of callers.
func (r *rig) ended() []trace.ReadOnlySpan {
	ended := r.spans.Ended()
	r.spans.Reset()
	return slices.DeleteFunc(ended, func(s trace.ReadOnlySpan) bool { return s.Name() == "caller" })
}

// series is one value of a metric: a counter's, or a histogram's count and sum.
type series struct {
	metric    metricdata.Metrics
	labels    attribute.Set
	value     string
	exemplars []metricdata.Exemplar[float64]
}

func (r *rig) series() (all []series) {
	r.Helper()
	var recorded metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &recorded); err != nil {
		r.Fatal(err)
	}
	for _, scope := range recorded.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					all = append(all, series{m, p.Attributes, fmt.Sprint(p.Value), nil})
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					all = append(all, series{m, p.Attributes, fmt.Sprintf("%d in %gs", p.Count, p.Sum), p.Exemplars})
				}
			}
		}
	}
	return all
}

// points are the series that are not 0, as "name{labels}" without doclock's prefix and without the labels of the
// collection, which all have.
func (r *rig) points() map[string]string {
	r.Helper()
	points := map[string]string{}
	for _, s := range r.series() {
		var labels []string
		for _, a := range s.labels.ToSlice() {
			if !strings.HasPrefix(string(a.Key), "db.") {
				labels = append(labels, strings.TrimPrefix(string(a.Key), "doclock.")+"="+a.Value.String())
			}
		}
		if s.value != "0" {
			points[strings.TrimPrefix(s.metric.Name, "doclock.")+"{"+strings.Join(labels, ",")+"}"] = s.value
		}
	}
	return points
}

// attr is a span's attribute as text, or empty.
func attr(s trace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func documentID(id any) bson.RawValue {
	kind, data, err := bson.MarshalValue(id)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

// kindOf is the kind of the events that come about in a way.
var kindOf = map[doclock.EventHow]doclock.EventKind{
	doclock.HowStill: doclock.EventWaiting, doclock.HowRefused: doclock.EventNotGranted, doclock.HowGaveUp: doclock.EventNotGranted,
	doclock.HowHandedOver: doclock.EventReleased, doclock.HowDetached: doclock.EventReleased, doclock.HowConverted: doclock.EventReleased,
	doclock.HowCommitted: doclock.EventTransaction, doclock.HowRolledBack: doclock.EventTransaction, doclock.HowUndecided: doclock.EventTransaction,
}

// event is an event of a kind or a way, of the lease with this number, or of none for 0, some time after noon.
func event(lease int, what any, after time.Duration) doclock.Event {
	e := doclock.Event{
		Time:       noon.Add(after),
		Collection: "shop.orders", DocumentID: documentID("A-17"), Tag: "write", Owner: "host/4711/api",
	}
	switch what := what.(type) {
	case doclock.EventKind:
		e.Kind = what
	case doclock.EventHow:
		e.Kind, e.How = kindOf[what], what
	}
	if lease != 0 {
		binary.BigEndian.PutUint64(e.LeaseID[:], uint64(lease))
		e.Fence = int64(1000 + lease)
	}
	return e
}

// lifetime is the grant and the end of a lease, whose acquire began at noon.
func lifetime(lease int, what any, err error) (granted, end doclock.Event) {
	granted = event(lease, doclock.EventGranted, 2*time.Second)
	granted.Waited, granted.Commands, granted.Holders = 2*time.Second, 3, inTheWay
	end = event(lease, what, 5*time.Second)
	end.Held, end.Commands, end.Err = 3*time.Second, 1, err
	return granted, end
}

var (
	conflict = &doclock.ConflictError{Tag: "write"}
	inTheWay = []doclock.Holder{{Tag: "write", Owner: "other/1/api"}, {Tag: "read", Owner: "other/2/api", Waiting: true}}
)

func (r *rig) equal(what string, got, want any) {
	r.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("%s: got %v, want %v", what, got, want)
	}
}
