package otel

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/trace/noop"
)

// Leases whose end never comes are forgotten, the oldest first. The youngest keep their trace. The comment of leasesKept
// says how many bytes one takes.
func TestNoLeaseLeaks(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const surplus = 1000
	r := newRig(t)
	l, parent, before := newLeases(), r.inSpan().SpanContext(), heap()
	for n := range leasesKept + surplus {
		l.began(event(n+1, doclock.EventGranted, 0), parent)
	}
	if each := (heap() - before) / leasesKept; each > 500 {
		t.Errorf("a lease takes %d bytes", each)
	}
	r.equal("remembered", []int{len(l.byID), l.all.Len()}, []int{leasesKept, leasesKept})
	for n, known := range map[int]bool{1: false, surplus: false, surplus + 1: true, leasesKept + surplus: true} {
		r.equal("known", l.ended(event(n, doclock.EventReleased, 0)).parent.IsValid(), known)
	}
}

// An end leaves nothing of its lease, also if it shares its ID. Without a trace, nothing is remembered.
func TestAnEndForgetsItsLease(t *testing.T) {
	r := newRig(t)
	for _, n := range []int{1, 1, 2, 1} {
		r.observe(event(n, doclock.EventGranted, 0))
	}
	for i, n := range []int{1, 2, 1, 1, 1} {
		r.observe(event(n, doclock.EventLost, 0))
		r.equal("remembered", r.leases.all.Len(), max(0, 3-i))
	}
	r.equal("IDs", len(r.leases.byID), 0)

	// Those of a batch have one ID, each in another document.
	first, second := event(1, doclock.EventGranted, 0), event(1, doclock.EventGranted, 0)
	second.DocumentID = bson.RawValue{Type: bson.TypeInt32, Value: []byte{2, 0, 0, 0}}
	r.observe(first)
	r.observe(second)
	failed := event(1, doclock.EventRenewalFailed, 0)
	r.observe(failed)
	r.equal("failed in the other document", r.leases.ended(second).failed, 0)
	r.equal("failed", r.leases.ended(first).failed, 1)

	untraced, err := New(WithTracerProvider(noop.NewTracerProvider()), WithMeterProvider(nil))
	if err != nil {
		t.Fatal(err)
	}
	untraced.Observe(t.Context(), event(1, doclock.EventGranted, 0))
	r.equal("remembered without a trace", untraced.leases.all.Len(), 0)
}

// Several Lockers call one Observer at once. The race detector looks on.
func TestLockersShareAnObserver(t *testing.T) {
	r := newRig(t)
	const lockers, each = 8, 200
	var group sync.WaitGroup
	for locker := range lockers {
		group.Go(func() {
			for i := range each {
				granted, end := lifetime(1+locker*each+i, doclock.EventReleased, nil)
				granted.Tag, end.Tag = time.Duration(i).String(), time.Duration(i).String()
				r.observe(granted, end)
			}
		})
	}
	group.Wait()
	r.equal("spans", len(r.ended()), 2*lockers*each)
	r.equal("remembered", r.leases.all.Len()+len(r.leases.byID), 0)
}
