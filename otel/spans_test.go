package otel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// times are when a span began and ended, after noon.
func times(s trace.ReadOnlySpan) string {
	return fmt.Sprint(s.StartTime().Sub(noon), " ", s.EndTime().Sub(noon))
}

func TestSpansOfALease(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventReleased, nil)
	caller := r.inSpan(granted)
	r.observe(end) // as after Release(context.Background())
	spans := r.ended()
	for i, want := range []struct{ name, times, attributes string }{
		{"acquire orders", "0s 2s", `db.collection.name=orders,db.namespace=shop,db.system.name=mongodb,doclock.commands=3,` +
			`doclock.document.id="A-17",doclock.fence=1001,doclock.holders=["write of other/1/api, held","read of other/2/api, waiting"],` +
			`doclock.lease.id=00000000-0000-0001-0000-000000000000,doclock.outcome=granted,doclock.owner=host/4711/api,doclock.tag=write`},
		{"hold orders", "2s 5s", `db.collection.name=orders,db.namespace=shop,db.system.name=mongodb,doclock.commands=1,` +
			`doclock.document.id="A-17",doclock.fence=1001,doclock.lease.id=00000000-0000-0001-0000-000000000000,` +
			`doclock.outcome=released,doclock.owner=host/4711/api,doclock.renewal_failures=0,doclock.tag=write`},
	} {
		attributes := attribute.NewSet(spans[i].Attributes()...)
		r.equal("attributes", attributes.Encoded(attribute.DefaultEncoder()), want.attributes)
		r.equal("name", spans[i].Name(), want.name)
		r.equal("times", times(spans[i]), want.times)
		r.equal("kind", spans[i].SpanKind(), api.SpanKindInternal)
		r.equal("parent", spans[i].Parent().SpanID(), caller.SpanContext().SpanID())
		r.equal("trace", spans[i].SpanContext().TraceID(), caller.SpanContext().TraceID())
		r.equal("status", spans[i].Status().Code, codes.Unset)
	}
	// A histogram's exemplar leads to the span.
	for _, s := range r.series() {
		if len(s.exemplars) > 0 {
			i := slices.Index([]string{"doclock.wait.duration", "doclock.hold.duration"}, s.metric.Name)
			id := spans[i].SpanContext().SpanID()
			r.equal(s.metric.Name, s.exemplars[0].SpanID, id[:])
		}
	}
}

// Without a caller's span, an acquire and its lease are one trace. Without a grant, because it was dropped, the hold
// belongs to whoever ended the lease.
func TestParentsOfSpans(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.HowDetached, nil)
	r.observe(granted, end)
	spans := r.ended()
	r.equal("the acquire has a parent", spans[0].Parent().IsValid(), false)
	r.equal("parent of the hold", spans[1].Parent().SpanID(), spans[0].SpanContext().SpanID())

	caller := r.inSpan(end)
	hold := r.ended()[0]
	r.equal("times", times(hold), "2s 5s")
	r.equal("parent", hold.Parent().SpanID(), caller.SpanContext().SpanID())
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

// A lease of an unsampled caller has no span, though its end comes without that caller.
func TestTheSamplersDecisionHolds(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventReleased, nil)
	unsampled := api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID{1}, SpanID: api.SpanID{1}})
	r.Observe(api.ContextWithSpanContext(t.Context(), unsampled), granted)
	r.observe(end)
	r.equal("spans", len(r.ended()), 0)
}

func TestStatusOfSpans(t *testing.T) {
	for _, c := range []struct {
		kind    any
		err     error
		code    codes.Code
		errType string
	}{
		{doclock.HowRefused, errors.Join(doclock.ErrNotAcquired, conflict), codes.Unset, "conflict"},
		{doclock.HowGaveUp, errors.Join(doclock.ErrNotAcquired, conflict, context.Canceled), codes.Error, "canceled"},
		{doclock.EventReleased, nil, codes.Unset, ""},
		{doclock.EventReleased, doclock.ErrOutcomeUnknown, codes.Error, "outcome_unknown"},
		{doclock.HowHandedOver, nil, codes.Unset, ""},
		{doclock.HowDetached, nil, codes.Unset, ""},
		{doclock.EventLost, &doclock.LostError{Reason: doclock.LossNotRenewed}, codes.Error, "lost"},
		{doclock.EventLost, nil, codes.Error, ""},
	} {
		r := newRig(t)
		_, e := lifetime(1, c.kind, c.err)
		r.observe(e)
		span := r.ended()[0]
		what := fmt.Sprint(c.kind, ", ", c.err, ": ")
		r.equal(what+"status", span.Status().Code, c.code)
		r.equal(what+"error.type", attr(span, "error.type"), c.errType)
		r.equal(what+"described", span.Status().Description != "", c.code == codes.Error)
		r.equal(what+"reason", attr(span, "doclock.loss.reason"), map[string]string{"lost": "not_renewed"}[c.errType])
	}
}

func TestAHoldHasTheFailuresOfItsLease(t *testing.T) {
	r := newRig(t)
	granted, end := lifetime(1, doclock.EventLost, doclock.ErrLost)
	r.observe(granted)
	for i := range 20 {
		failed := event(1, doclock.EventRenewalFailed, 3*time.Second+time.Duration(i)*time.Millisecond)
		failed.Err = errors.New(strings.Repeat("no server ", 100))
		r.observe(failed)
	}
	r.observe(end)
	hold := r.ended()[1]
	r.equal("failures", attr(hold, "doclock.renewal_failures"), "20")
	r.equal("events", len(hold.Events()), 8)
	r.equal("name", hold.Events()[1].Name, "renewal failed")
	r.equal("time", hold.Events()[1].Time.Sub(noon), 3*time.Second+time.Millisecond)
	for _, a := range hold.Events()[0].Attributes {
		if len(a.Value.String()) > 300 {
			t.Errorf("%s has %d bytes", a.Key, len(a.Value.String()))
		}
	}
}

// An _id is shown as people write it, and bytes that are no BSON are no panic.
func TestTextsOfSpans(t *testing.T) {
	r := newRig(t)
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
		if got := document(documentID(c.id)); got != c.want {
			t.Errorf("%v is shown as %s", c.id, got)
		}
	}
	e := event(0, doclock.HowRefused, 0)
	e.Holders = make([]doclock.Holder, 1000) // of many holders, the first few are named
	r.observe(e)
	r.equal("holders", strings.Count(attr(r.ended()[0], "doclock.holders"), "held"), 8)
	for kind := range 256 {
		for _, value := range [][]byte{nil, {1}, {255, 255, 255, 255, 1}} {
			document(bson.RawValue{Type: bson.Type(kind), Value: value})
		}
	}
}

// A caller who gave up by a cancel has an unknown outcome as well as one whose time was over.
func TestErrorTypeOfAnUnknownOutcome(t *testing.T) {
	if got := errorType(errors.Join(context.Canceled, doclock.ErrOutcomeUnknown)); got != "outcome_unknown" {
		t.Errorf("got %q", got)
	}
}

// An exporter refuses a whole batch of spans for one text that is not UTF-8.
func TestHoldersAreUTF8(t *testing.T) {
	r, e := newRig(t), event(0, doclock.HowRefused, 0)
	e.Holders = []doclock.Holder{{Tag: "write", Owner: "caf\xe9"}} // as another program wrote it
	r.observe(e)
	for _, a := range r.ended()[0].Attributes() {
		if a.Key != holdersKey {
			continue
		}
		for _, text := range a.Value.AsStringSlice() {
			if !utf8.ValidString(text) {
				t.Errorf("the span has %q", text)
			}
		}
	}
}
