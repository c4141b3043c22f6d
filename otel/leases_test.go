package otel

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
)

func granted(n int, at time.Time) doclock.Event {
	e := doclock.Event{Kind: doclock.EventGranted, Time: at, Collection: "shop.orders", Tag: "write"}
	binary.BigEndian.PutUint64(e.LeaseID[:], uint64(n+1))
	return e
}

func traced(t testing.TB) (*Observer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	o, err := New(WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans))))
	if err != nil {
		t.Fatal(err)
	}
	return o, spans
}

// Leases whose end never comes are forgotten, the oldest first. The youngest keep
// their trace.
func TestNoLeaseLeaks(t *testing.T) {
	o, spans := traced(t)
	now := time.Now()
	const surplus = 1000
	for n := range leasesKept + surplus {
		o.Observe(context.Background(), granted(n, now))
		spans.Reset()
	}
	if len(o.leases.byID) != leasesKept || o.leases.all.Len() != leasesKept {
		t.Fatalf("%d and %d leases are remembered, want %d", len(o.leases.byID), o.leases.all.Len(), leasesKept)
	}
	for n, known := range map[int]bool{0: false, surplus - 1: false, surplus: true, leasesKept + surplus - 1: true} {
		end := granted(n, now)
		end.Kind = doclock.EventReleased
		spans.Reset()
		o.Observe(context.Background(), end)
		if hold := spans.Ended()[0]; hold.Parent().IsValid() != known {
			t.Errorf("lease %d: its hold's parent is %v, want one: %v", n, hold.Parent(), known)
		}
	}
}

// An end leaves nothing of its lease, also if it shares its ID.
func TestAnEndForgetsItsLease(t *testing.T) {
	o, _ := traced(t)
	now := time.Now()
	for _, n := range []int{1, 1, 2, 1} {
		o.Observe(context.Background(), granted(n, now))
	}
	for i, n := range []int{1, 2, 1, 1, 1} {
		end := granted(n, now)
		end.Kind = doclock.EventLost
		o.Observe(context.Background(), end)
		if want := max(0, 3-i); o.leases.all.Len() != want {
			t.Errorf("after end %d, %d leases are remembered, want %d", i, o.leases.all.Len(), want)
		}
	}
	if len(o.leases.byID) != 0 {
		t.Errorf("%d IDs are remembered", len(o.leases.byID))
	}
}

// The number in the comment of leasesKept.
func TestARememberedLeaseIsSmall(t *testing.T) {
	l := newLeases()
	o, _ := traced(t)
	_, span := o.tracer.Start(t.Context(), "caller")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for n := range leasesKept {
		l.began(granted(n, time.Time{}), span.SpanContext())
	}
	each := (heap() - before) / leasesKept
	runtime.KeepAlive(l)
	t.Logf("%d bytes for a lease", each)
	if each > 500 {
		t.Errorf("a lease takes %d bytes", each)
	}
}

func TestNothingIsRememberedWithoutATrace(t *testing.T) {
	o, err := New(WithTracerProvider(noop.NewTracerProvider()), WithMeterProvider(nil))
	if err != nil {
		t.Fatal(err)
	}
	o.Observe(t.Context(), granted(1, time.Now()))
	if o.leases.all.Len() != 0 {
		t.Error("a lease is remembered")
	}
}

// Several Lockers call one Observer at once. The race detector looks on.
func TestLockersShareAnObserver(t *testing.T) {
	o, spans := traced(t)
	const lockers, each = 8, 200
	var group sync.WaitGroup
	for locker := range lockers {
		group.Go(func() {
			for i := range each {
				e := granted(locker*each+i, time.Now())
				e.Tag = uuid.NewString()[:2]
				o.Observe(context.Background(), e)
				e.Kind = doclock.EventReleased
				o.Observe(context.Background(), e)
			}
		})
	}
	group.Wait()
	if n := len(spans.Ended()); n != 2*lockers*each {
		t.Errorf("%d spans, want %d", n, 2*lockers*each)
	}
	if o.leases.all.Len() != 0 || len(o.leases.byID) != 0 {
		t.Errorf("%d leases are remembered", o.leases.all.Len())
	}
}

// Labels beyond the limit are made anew, and still right.
func TestLabelsAreBounded(t *testing.T) {
	o, spans := traced(t)
	for range 2 {
		for n := range labelsKept + 10 {
			e := granted(1, time.Now())
			e.Kind, e.Tag = doclock.EventWaiting, uuid.NewSHA1(uuid.Nil, []byte{byte(n), byte(n >> 8)}).String()
			o.Observe(context.Background(), e)
		}
	}
	if len(o.labels.all) != labelsKept {
		t.Errorf("%d labels are kept, want %d", len(o.labels.all), labelsKept)
	}
	e := granted(1, time.Now())
	e.Tag = "one more"
	o.Observe(context.Background(), e)
	found := false
	for _, a := range spans.Ended()[0].Attributes() {
		found = found || a.Key == tagKey && a.Value.AsString() == "one more"
	}
	if !found {
		t.Errorf("no tag in %v", spans.Ended()[0].Attributes())
	}
}
