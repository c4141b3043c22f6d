package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// lifetime is the grant and the end of lease n, whose acquire began at noon.
func lifetime(n int, kind doclock.EventKind, err error) (granted, end doclock.Event) {
	granted = leased(n, doclock.EventGranted, 2*time.Second)
	granted.Waited, granted.Commands = 2*time.Second, 3
	granted.Holders = []doclock.Holder{{Tag: "write", Owner: "other/1/api"}, {Tag: "read", Owner: "other/2/api", Waiting: true}}
	end = leased(n, kind, 5*time.Second)
	end.Held, end.Commands, end.Err = 3*time.Second, 1, err
	return granted, end
}

// times are when a span began and ended, after noon.
func times(s trace.ReadOnlySpan) string {
	return fmt.Sprint(s.StartTime().Sub(noon), " ", s.EndTime().Sub(noon))
}

func attrs(s trace.ReadOnlySpan) string {
	var all []string
	for _, a := range s.Attributes() {
		all = append(all, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestSpansOfALease(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventReleased, nil)
	caller := r.inSpan(granted)
	r.observe(end) // as after Release(context.Background())
	spans := r.ended()
	r.equal("number of spans", len(spans), 2)
	acquire, hold := spans[0], spans[1]
	r.equal("acquire", acquire.Name(), "acquire orders")
	r.equal("hold", hold.Name(), "hold orders")
	r.equal("times of acquire", times(acquire), "0s 2s")
	r.equal("times of hold", times(hold), "2s 5s")
	r.equal("kind", acquire.SpanKind(), api.SpanKindInternal)
	for _, s := range spans {
		r.equal("parent of "+s.Name(), s.Parent().SpanID(), caller.SpanContext().SpanID())
		r.equal("trace of "+s.Name(), s.SpanContext().TraceID(), caller.SpanContext().TraceID())
		r.equal("status of "+s.Name(), s.Status().Code, codes.Unset)
	}
	r.equal("attributes of acquire", attrs(acquire), `db.collection.name=orders
db.namespace=shop
db.system.name=mongodb
doclock.commands=3
doclock.document.id="A-17"
doclock.fence=1001
doclock.holders=["write of other/1/api, held","read of other/2/api, waiting"]
doclock.lease.id=00000000-0000-0001-0000-000000000000
doclock.outcome=granted
doclock.owner=host/4711/api
doclock.tag=write`)
	r.equal("attributes of hold", attrs(hold), `db.collection.name=orders
db.namespace=shop
db.system.name=mongodb
doclock.commands=1
doclock.document.id="A-17"
doclock.fence=1001
doclock.lease.id=00000000-0000-0001-0000-000000000000
doclock.outcome=released
doclock.owner=host/4711/api
doclock.renewal_failures=0
doclock.tag=write`)
}

// Without a caller's span, an acquire and its lease are one trace.
func TestSpansWithoutACaller(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventDetached, nil)
	r.observe(granted, end)
	spans := r.ended()
	if spans[0].Parent().IsValid() {
		t.Errorf("the acquire's span has the parent %v", spans[0].Parent())
	}
	r.equal("parent of the hold", spans[1].Parent().SpanID(), spans[0].SpanContext().SpanID())
}

// An unsampled acquire has an unsampled hold, though the end has no parent.
func TestTheSamplersDecisionHolds(t *testing.T) {
	first := &sampleFirst{}
	r := newRig(t, trace.WithSampler(trace.ParentBased(first)))
	granted, end := lifetime(1, doclock.EventReleased, nil)
	r.observe(granted, end)
	if spans := r.ended(); len(spans) != 0 {
		t.Errorf("got %d spans", len(spans))
	}
	r.equal("decisions", first.asked, 1)
	granted, end = lifetime(2, doclock.EventReleased, nil)
	r.observe(granted, end)
	r.equal("spans of the sampled lease", len(r.ended()), 2)
}

// sampleFirst drops the first trace, and samples the others.
type sampleFirst struct{ asked int }

func (s *sampleFirst) ShouldSample(trace.SamplingParameters) trace.SamplingResult {
	if s.asked++; s.asked == 1 {
		return trace.SamplingResult{Decision: trace.Drop}
	}
	return trace.SamplingResult{Decision: trace.RecordAndSample}
}
func (s *sampleFirst) Description() string { return "the second trace" }

func TestStatusOfSpans(t *testing.T) {
	refused, gaveUp := event(doclock.EventRefused, 0), event(doclock.EventGaveUp, 0)
	refused.Err = errors.Join(doclock.ErrNotAcquired, conflict)
	gaveUp.Err = errors.Join(doclock.ErrNotAcquired, conflict, context.Canceled)
	for _, c := range []struct {
		name    string
		event   doclock.Event
		code    codes.Code
		errType string
	}{
		{"refused", refused, codes.Unset, "conflict"},
		{"gave up", gaveUp, codes.Error, "canceled"},
		{"released", ending(doclock.EventReleased, nil), codes.Unset, ""},
		{"released and unknown", ending(doclock.EventReleased, doclock.ErrOutcomeUnknown), codes.Error, "outcome_unknown"},
		{"handed over", ending(doclock.EventHandedOver, nil), codes.Unset, ""},
		{"detached", ending(doclock.EventDetached, nil), codes.Unset, ""},
		{"lost", ending(doclock.EventLost, doclock.ErrLost), codes.Error, "lost"},
		{"lost without an error", ending(doclock.EventLost, nil), codes.Error, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.observe(c.event)
			span := r.ended()[0]
			r.equal("status", span.Status().Code, c.code)
			errType, _ := attr(span, "error.type")
			r.equal("error.type", errType, c.errType)
			if c.code == codes.Error && span.Status().Description == "" {
				t.Error("the status has no description")
			}
		})
	}
}

func ending(kind doclock.EventKind, err error) doclock.Event {
	_, end := lifetime(1, kind, err)
	return end
}

func TestAHoldHasTheFailuresOfItsLease(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventLost, doclock.ErrLost)
	r.observe(granted)
	for i := range 20 {
		failed := leased(1, doclock.EventRenewalFailed, 3*time.Second+time.Duration(i)*time.Millisecond)
		failed.Err = errors.New(strings.Repeat("no server ", 100))
		r.observe(failed)
	}
	r.observe(end)
	hold := r.ended()[1]
	failures, _ := attr(hold, "doclock.renewal_failures")
	r.equal("failures", failures, "20")
	r.equal("events", len(hold.Events()), 8)
	r.equal("name", hold.Events()[1].Name, "renewal failed")
	r.equal("time", hold.Events()[1].Time.Sub(noon), 3*time.Second+time.Millisecond)
	for _, a := range hold.Events()[0].Attributes {
		if len(a.Value.String()) > 300 {
			t.Errorf("%s has %d bytes", a.Key, len(a.Value.String()))
		}
	}
}

// Holders that share an entry have one lease ID. Each keeps its own trace.
func TestLeasesThatShareAnID(t *testing.T) {
	r := newRig(t)
	first, firstEnd := lifetime(1, doclock.EventReleased, nil)
	second, secondEnd := lifetime(1, doclock.EventReleased, nil)
	second.Time, secondEnd.Held = second.Time.Add(time.Second), secondEnd.Held-time.Second
	callers := []trace.ReadOnlySpan{r.inSpan(first), r.inSpan(second)}
	r.observe(secondEnd, firstEnd)
	spans := r.ended()
	r.equal("times of the second hold", times(spans[2]), "3s 5s")
	r.equal("trace of the second hold", spans[2].SpanContext().TraceID(), callers[1].SpanContext().TraceID())
	r.equal("trace of the first hold", spans[3].SpanContext().TraceID(), callers[0].SpanContext().TraceID())
}

// A histogram's exemplar leads to the span.
func TestExemplarsNameTheSpans(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventReleased, nil)
	r.inSpan(granted)
	r.observe(end)
	spans, metrics := r.ended(), r.metrics()
	for i, name := range []string{"doclock.wait.duration", "doclock.hold.duration"} {
		points := metrics[name].Data.(metricdata.Histogram[float64]).DataPoints
		if len(points) != 1 || len(points[0].Exemplars) != 1 {
			t.Fatalf("%s: %+v", name, points)
		}
		id := spans[i].SpanContext().SpanID()
		r.equal(name, points[0].Exemplars[0].SpanID, id[:])
	}
}

// The grant was dropped: the hold belongs to whoever ended the lease.
func TestAnEndWithoutAGrant(t *testing.T) {
	r := newRig(t)
	caller := r.inSpan(ending(doclock.EventReleased, nil))
	hold := r.ended()[0]
	r.equal("times", times(hold), "2s 5s")
	r.equal("parent", hold.Parent().SpanID(), caller.SpanContext().SpanID())
}

// The first few of many holders are named.
func TestManyHolders(t *testing.T) {
	r := newRig(t)
	e := event(doclock.EventRefused, 0)
	e.Holders = make([]doclock.Holder, 1000)
	r.observe(e)
	got, _ := attr(r.ended()[0], "doclock.holders")
	r.equal("holders", strings.Count(got, "held"), 8)
}

// Bytes that are no BSON are no panic.
func TestABrokenDocumentID(t *testing.T) {
	r := newRig(t)
	for kind := range 256 {
		for _, value := range [][]byte{nil, {1}, {255, 255, 255, 255, 1}} {
			e := leased(1, doclock.EventGranted, 0)
			e.DocumentID = bson.RawValue{Type: bson.Type(kind), Value: value}
			r.observe(e)
		}
	}
	r.equal("spans", len(r.ended()), 3*256)
}

func TestDocumentIDsOfSpans(t *testing.T) {
	id, err := bson.ObjectIDFromHex("5f9d1b2c3d4e5f6071829304")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   any
		want string
	}{
		{7, "7"},
		{"A-17", `"A-17"`},
		{id, `{"$oid":"5f9d1b2c3d4e5f6071829304"}`},
		{bson.D{{Key: "shop", Value: 1}, {Key: "n", Value: 2}}, `{"shop":1,"n":2}`},
		{strings.Repeat("é", 1000), `"` + strings.Repeat("é", 127) + "…"}, // 256 bytes would split the last é
	} {
		r := newRig(t)
		e := leased(1, doclock.EventGranted, 0)
		e.DocumentID = documentID(c.id)
		r.observe(e)
		got, _ := attr(r.ended()[0], "doclock.document.id")
		r.equal("document", got, c.want)
	}
}
