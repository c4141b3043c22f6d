package otel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/adjust"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// real is a rig whose events are those of a Locker on the server.
type real struct {
	*rig
	locks *multilock.Locker
	doc   *fixture.Document
	ctx   context.Context // of the caller's span
	span  api.Span
}

func newReal(t *testing.T, opts ...doclock.Option) *real {
	r := &real{rig: newRig(t), doc: fixture.NewDocument(t)}
	var err error
	r.locks, err = multilock.New(r.doc.Hand, relations.WritePreferring(), append([]doclock.Option{doclock.TTL(30 * time.Second), doclock.WaitTTL(30 * time.Second), doclock.OnEvent(r.Observe)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	r.ctx, r.span = r.tracer.Tracer("caller").Start(fixture.Bounded(t), "caller")
	t.Cleanup(r.close)
	return r
}

// closed closes the Locker, whose last events come after that: until so many spans
// have ended.
func (r *real) closed(spans int) {
	r.Helper()
	r.close()
	fixture.Eventually(r, fmt.Sprintf("%d spans have ended", spans), func() bool { return len(r.spans.Ended()) >= spans })
}

func (r *real) close() {
	r.Helper()
	if err := r.locks.Close(context.Background()); err != nil {
		r.Error(err)
	}
}

func (r *real) acquire(opts ...doclock.AcquireOption) *doclock.Lease {
	r.Helper()
	lease, err := r.locks.Acquire(r.ctx, bson.M{"_id": 1}, "write", opts...)
	if err != nil {
		r.Fatal(err)
	}
	return lease
}

func (r *real) fails(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("got %v, want %v", err, want)
	}
}

func (r *real) succeeds(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// counts are how many points the metrics have, without the sums of durations.
func (r *real) counts() map[string]string {
	counts := r.points()
	for name, value := range counts {
		var n int
		var sum float64
		if _, err := fmt.Sscanf(value, "%d in %fs", &n, &sum); err == nil {
			counts[name] = fmt.Sprint(n)
		}
	}
	delete(counts, "doclock.commands{tag=write}")
	return counts
}

type acquired struct {
	lease *doclock.Lease
	err   error
}

// waiter is the result of an acquire that waits by now.
func (r *real) waiter(ctx context.Context) <-chan acquired {
	r.Helper()
	const conflicts = "doclock.conflicts{tag=write}"
	before := r.counts()[conflicts]
	result := make(chan acquired, 1)
	go func() {
		lease, err := r.locks.Acquire(ctx, bson.M{"_id": 1}, "write")
		result <- acquired{lease, err}
	}()
	fixture.Eventually(r, "an acquire waits", func() bool { return r.counts()[conflicts] != before })
	return result
}

// What a Locker's caller has seen is what the metrics and spans say.
func TestALocker(t *testing.T) {
	r := newReal(t)
	first := r.acquire()
	_, err := r.locks.TryAcquire(r.ctx, bson.M{"_id": 1}, "write")
	r.fails(err, doclock.ErrConflict)
	_, err = r.locks.TryAcquire(r.ctx, bson.M{"_id": 2}, "write")
	r.fails(err, doclock.ErrNotFound)
	fixture.Eventually(t, "the first conflict is told", func() bool { return r.counts()["doclock.conflicts{tag=write}"] == "1" })
	ended, end := context.WithCancel(r.ctx)
	gaveUp := r.waiter(ended)
	end()
	r.fails((<-gaveUp).err, context.Canceled)
	second := r.waiter(r.ctx)
	r.succeeds(first.Renew(r.ctx))
	r.succeeds(first.Release(context.Background()))
	waited := <-second
	r.succeeds(waited.err)
	token, err := waited.lease.Detach(r.ctx)
	r.succeeds(err)
	resumed, err := r.locks.Resume(r.ctx, token)
	r.succeeds(err)
	r.doc.Change(bson.M{"$unset": bson.M{"lock.tags": ""}}) // the entry is gone
	r.fails(resumed.Update(r.ctx, bson.M{"$set": bson.M{"count": 1}}), doclock.ErrLost)
	r.succeeds(r.acquire().UpdateAndRelease(r.ctx, bson.M{"$set": bson.M{"count": 1}}))
	r.closed(11)

	counts := r.counts()
	for name, want := range map[string]string{
		"doclock.wait.duration{outcome=granted,tag=write}":                      "4",
		"doclock.wait.duration{outcome=refused,tag=write,error.type=conflict}":  "1",
		"doclock.wait.duration{outcome=refused,tag=write,error.type=not_found}": "1",
		"doclock.wait.duration{outcome=gave_up,tag=write,error.type=canceled}":  "1",
		"doclock.hold.duration{outcome=handed_over,tag=write}":                  "1",
		"doclock.hold.duration{outcome=detached,tag=write}":                     "1",
		"doclock.hold.duration{outcome=lost,tag=write,error.type=lost}":         "1",
		"doclock.hold.duration{outcome=released,tag=write}":                     "1",
		"doclock.conflicts{tag=write}":                                          "3",
		"doclock.losses{tag=write}":                                             "1",
		"doclock.renewals{tag=write}":                                           "1",
	} {
		r.equal(name, counts[name], want)
		delete(counts, name)
	}
	r.equal("other points", counts, map[string]string{})
	r.equal("active leases", r.active(), 0)

	r.span.End()
	names := map[string]int{}
	for _, s := range r.ended() {
		names[s.Name()]++
		r.equal("parent of "+s.Name(), s.Parent().SpanID(), r.span.SpanContext().SpanID())
		r.inside(s, r.span.(trace.ReadOnlySpan))
	}
	r.equal("spans", names, map[string]int{"acquire documents": 7, "hold documents": 4})
}

// active is how many leases are held.
func (r *real) active() (n int64) {
	for _, p := range r.metrics()["doclock.active_leases"].Data.(metricdata.Sum[int64]).DataPoints {
		n += p.Value
	}
	return n
}

// inside says that a span is within the other one's time.
func (r *real) inside(inner, outer trace.ReadOnlySpan) {
	r.Helper()
	if inner.StartTime().Before(outer.StartTime()) || inner.EndTime().After(outer.EndTime()) || inner.EndTime().Before(inner.StartTime()) {
		r.Errorf("%s is from %v to %v", inner.Name(), inner.StartTime(), inner.EndTime())
	}
}

// The spans have the times at which things happened, and not those at which the
// observer was told. The clock is turned by hand.
func TestTimesOfSpans(t *testing.T) {
	var clock fixture.Clock
	r := newReal(t, adjust.Locker(func(c *engine.Config) {
		c.Clock = func() engine.Reading { return engine.Reading(clock.Read()) }
	}))
	began := clock.Now()
	lease := r.acquire()
	clock.Pass(3 * time.Second)
	r.succeeds(lease.Release(r.ctx))
	clock.Pass(time.Second)
	r.closed(2)
	var all []string
	for _, s := range r.ended() {
		all = append(all, fmt.Sprint(s.Name(), " ", s.StartTime().Sub(began), " ", s.EndTime().Sub(began)))
	}
	r.equal("spans", all, []string{"acquire documents 0s 0s", "hold documents 0s 3s"})
}

// A lease that its holder has forgotten is lost when its time is up.
func TestALeaseThatNobodyReleases(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newReal(t, doclock.TTL(doclock.MinTTL))
		lease := r.acquire()
		fixture.Eventually(t, "the lease is lost", func() bool { return r.counts()["doclock.losses{tag=write}"] == "1" })
		r.fails(lease.Err(), doclock.ErrLost)
		r.closed(2)
		r.equal("active leases", r.active(), 0)
		hold := r.ended()[1]
		r.equal("status", hold.Status().Code, codes.Error)
		if held := hold.EndTime().Sub(hold.StartTime()); held <= 0 || held > fixture.Patience {
			t.Errorf("it was held for %v", held)
		}
	})
}
