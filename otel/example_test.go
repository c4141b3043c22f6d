package otel_test

import (
	"context"
	"encoding/binary"
	"log"
	"os"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/otel"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// A program that has set up OpenTelemetry needs two lines.
func ExampleNew() {
	var orders *mongo.Collection // of the program's database

	observer, err := otel.New() // of the global providers
	check(err)
	locks, err := writelock.New(orders, doclock.OnEvent(observer.Observe))
	check(err)
	lease, err := locks.Acquire(context.TODO(), bson.M{"_id": "A-17"})
	check(err)
	check(lease.Release(context.TODO()))
}

// The metrics and spans of one lease, as the stdout exporters print them. A program
// gives observer.Observe to doclock.OnEvent. Here the events are made by hand, so
// that times and IDs are the same in each run, and only two metrics are kept.
func Example() {
	ctx := context.Background()
	spans, err := stdouttrace.New(stdouttrace.WithWriter(os.Stdout))
	check(err)
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans), trace.WithIDGenerator(&counted{}), trace.WithResource(resource.Empty()))
	values, err := stdoutmetric.New(stdoutmetric.WithWriter(os.Stdout), stdoutmetric.WithoutTimestamps())
	check(err)
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(values)), metric.WithResource(resource.Empty()),
		metric.WithView(only("doclock.hold.duration", "doclock.active_leases")))
	observer, err := otel.New(otel.WithTracerProvider(tracers), otel.WithMeterProvider(meters))
	check(err)

	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	e := doclock.Event{Kind: doclock.EventGranted, Time: noon, Collection: "shop.orders", Tag: "write", Owner: "host/4711/api",
		LeaseID: uuid.Max, Fence: 17, Waited: 40 * time.Millisecond, Commands: 2}
	observer.Observe(ctx, e)
	e.Kind, e.Time, e.Held, e.Commands = doclock.EventReleased, noon.Add(3*time.Second), 3*time.Second, 1
	observer.Observe(ctx, e)

	check(tracers.Shutdown(ctx))
	check(meters.Shutdown(ctx))
	// Output:
	// {"Name":"acquire orders","SpanContext":{"TraceID":"00000000000000000000000000000001","SpanID":"0000000000000002","TraceFlags":"01","TraceState":"","Remote":false},"Parent":{"TraceID":"00000000000000000000000000000000","SpanID":"0000000000000000","TraceFlags":"00","TraceState":"","Remote":false},"SpanKind":1,"StartTime":"2026-11-22T11:59:59.96Z","EndTime":"2026-11-22T12:00:00Z","Attributes":[{"Key":"db.collection.name","Value":{"Type":"STRING","Value":"orders"}},{"Key":"db.namespace","Value":{"Type":"STRING","Value":"shop"}},{"Key":"db.system.name","Value":{"Type":"STRING","Value":"mongodb"}},{"Key":"doclock.tag","Value":{"Type":"STRING","Value":"write"}},{"Key":"doclock.outcome","Value":{"Type":"STRING","Value":"granted"}},{"Key":"doclock.owner","Value":{"Type":"STRING","Value":"host/4711/api"}},{"Key":"doclock.commands","Value":{"Type":"INT64","Value":2}},{"Key":"doclock.lease.id","Value":{"Type":"STRING","Value":"ffffffff-ffff-ffff-ffff-ffffffffffff"}},{"Key":"doclock.fence","Value":{"Type":"INT64","Value":17}}],"Events":null,"Links":null,"Status":{"Code":"Unset","Description":""},"DroppedAttributes":0,"DroppedEvents":0,"DroppedLinks":0,"ChildSpanCount":0,"Resource":null,"InstrumentationScope":{"Name":"github.com/doclock/doclock/otel","Version":"","SchemaURL":"","Attributes":null},"InstrumentationLibrary":{"Name":"github.com/doclock/doclock/otel","Version":"","SchemaURL":"","Attributes":null}}
	// {"Name":"hold orders","SpanContext":{"TraceID":"00000000000000000000000000000001","SpanID":"0000000000000003","TraceFlags":"01","TraceState":"","Remote":false},"Parent":{"TraceID":"00000000000000000000000000000001","SpanID":"0000000000000002","TraceFlags":"01","TraceState":"","Remote":false},"SpanKind":1,"StartTime":"2026-11-22T12:00:00Z","EndTime":"2026-11-22T12:00:03Z","Attributes":[{"Key":"db.collection.name","Value":{"Type":"STRING","Value":"orders"}},{"Key":"db.namespace","Value":{"Type":"STRING","Value":"shop"}},{"Key":"db.system.name","Value":{"Type":"STRING","Value":"mongodb"}},{"Key":"doclock.tag","Value":{"Type":"STRING","Value":"write"}},{"Key":"doclock.outcome","Value":{"Type":"STRING","Value":"released"}},{"Key":"doclock.owner","Value":{"Type":"STRING","Value":"host/4711/api"}},{"Key":"doclock.commands","Value":{"Type":"INT64","Value":1}},{"Key":"doclock.lease.id","Value":{"Type":"STRING","Value":"ffffffff-ffff-ffff-ffff-ffffffffffff"}},{"Key":"doclock.fence","Value":{"Type":"INT64","Value":17}},{"Key":"doclock.renewal_failures","Value":{"Type":"INT64","Value":0}}],"Events":null,"Links":null,"Status":{"Code":"Unset","Description":""},"DroppedAttributes":0,"DroppedEvents":0,"DroppedLinks":0,"ChildSpanCount":0,"Resource":null,"InstrumentationScope":{"Name":"github.com/doclock/doclock/otel","Version":"","SchemaURL":"","Attributes":null},"InstrumentationLibrary":{"Name":"github.com/doclock/doclock/otel","Version":"","SchemaURL":"","Attributes":null}}
	// {"Resource":null,"ScopeMetrics":[{"Scope":{"Name":"github.com/doclock/doclock/otel","Version":"","SchemaURL":"","Attributes":null},"Metrics":[{"Name":"doclock.hold.duration","Description":"How long leases were held, from the grant to the end.","Unit":"s","Data":{"DataPoints":[{"Attributes":[{"Key":"db.collection.name","Value":{"Type":"STRING","Value":"orders"}},{"Key":"db.namespace","Value":{"Type":"STRING","Value":"shop"}},{"Key":"db.system.name","Value":{"Type":"STRING","Value":"mongodb"}},{"Key":"doclock.outcome","Value":{"Type":"STRING","Value":"released"}},{"Key":"doclock.tag","Value":{"Type":"STRING","Value":"write"}}],"StartTime":"0001-01-01T00:00:00Z","Time":"0001-01-01T00:00:00Z","Count":1,"Bounds":[0.001,0.005,0.01,0.025,0.05,0.1,0.5,1,5,10,30,60,300,1800,3600,21600,86400],"BucketCounts":[0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0],"Min":3,"Max":3,"Sum":3}],"Temporality":"CumulativeTemporality"}},{"Name":"doclock.active_leases","Description":"Leases that are held.","Unit":"{lease}","Data":{"DataPoints":[{"Attributes":[{"Key":"db.collection.name","Value":{"Type":"STRING","Value":"orders"}},{"Key":"db.namespace","Value":{"Type":"STRING","Value":"shop"}},{"Key":"db.system.name","Value":{"Type":"STRING","Value":"mongodb"}},{"Key":"doclock.tag","Value":{"Type":"STRING","Value":"write"}}],"StartTime":"0001-01-01T00:00:00Z","Time":"0001-01-01T00:00:00Z","Value":0}],"Temporality":"CumulativeTemporality","IsMonotonic":false}}]}]}
}

// only keeps the metrics with these names.
func only(names ...string) metric.View {
	return func(i metric.Instrument) (metric.Stream, bool) {
		return metric.Stream{Name: i.Name, Aggregation: metric.AggregationDrop{}}, !slices.Contains(names, i.Name)
	}
}

// counted makes the IDs of traces and spans 1, 2, 3, …
type counted struct{ last uint64 }

func (c *counted) NewIDs(ctx context.Context) (id api.TraceID, _ api.SpanID) {
	c.last++
	binary.BigEndian.PutUint64(id[8:], c.last)
	return id, c.NewSpanID(ctx, id)
}

func (c *counted) NewSpanID(context.Context, api.TraceID) (id api.SpanID) {
	c.last++
	binary.BigEndian.PutUint64(id[:], c.last)
	return id
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
