package otel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var conflict = &doclock.ConflictError{Tag: "write"}

// story has an event of each kind.
func story() []doclock.Event {
	granted := func(n int, after, waited time.Duration) doclock.Event {
		e := leased(n, doclock.EventGranted, after)
		e.Waited, e.Commands = waited, 1
		return e
	}
	end := func(n int, kind doclock.EventKind, after, held time.Duration, err error) doclock.Event {
		e := leased(n, kind, after)
		e.Held, e.Commands, e.Err = held, 2, err
		return e
	}
	refused := event(doclock.EventRefused, time.Second)
	refused.Err, refused.Waited, refused.Commands = errors.Join(doclock.ErrNotAcquired, conflict), 2*time.Millisecond, 1
	refused.Holders = []doclock.Holder{{Tag: "write", Owner: "other/1/api"}, {Tag: "read", Owner: "other/2/api", Waiting: true}}
	gone := event(doclock.EventRefused, time.Second)
	gone.Err, gone.Waited, gone.Commands, gone.DocumentID = doclock.ErrNotFound, 3*time.Millisecond, 1, bson.RawValue{}
	gaveUp := event(doclock.EventGaveUp, 5*time.Second)
	gaveUp.Err, gaveUp.Waited, gaveUp.Commands = errors.Join(doclock.ErrNotAcquired, conflict, context.DeadlineExceeded), 4*time.Second, 3
	failed := leased(3, doclock.EventRenewalFailed, 4*time.Second)
	failed.Err = mongo.CommandError{Code: 91, Message: "shutting down"}
	unknown := leased(4, doclock.EventOutcomeUnknown, 6*time.Second)
	unknown.Err = doclock.ErrOutcomeUnknown
	cleanUp := event(doclock.EventCleanUpFailed, 7*time.Second)
	cleanUp.Err, cleanUp.Dropped = errors.New("no server"), 5
	skipped := event(doclock.EventSkipped, 0)
	skipped.Err = mongo.CommandError{Code: 17419, Message: "too large"}
	jumped := doclock.Event{Kind: doclock.EventClockJumped, Collection: skipped.Collection, Time: skipped.Time, Jump: -time.Second}
	return []doclock.Event{
		skipped, jumped,
		granted(1, 0, 2*time.Millisecond),
		event(doclock.EventWaiting, 0), event(doclock.EventStillWaiting, 0),
		refused, gone,
		end(1, doclock.EventHandedOver, 2*time.Second, 2*time.Second, nil),
		granted(2, 2*time.Second, 500*time.Millisecond),
		leased(2, doclock.EventRenewed, 3*time.Second),
		end(2, doclock.EventDetached, 3*time.Second, time.Second, nil),
		granted(3, 3*time.Second, time.Millisecond),
		failed,
		end(3, doclock.EventLost, 5*time.Second, 2*time.Second, doclock.ErrLost),
		gaveUp,
		granted(4, 5*time.Second, time.Millisecond),
		unknown,
		end(4, doclock.EventReleased, 6*time.Second, time.Second, doclock.ErrOutcomeUnknown),
		granted(5, 6*time.Second, time.Millisecond),
		end(5, doclock.EventReleased, 7*time.Second, time.Second, nil),
		cleanUp,
		granted(6, 7*time.Second, time.Millisecond),
	}
}

func TestMetricsOfEachKind(t *testing.T) {
	r := newRig(t)
	r.observe(story()...)
	want := map[string]string{
		"doclock.wait.duration{outcome=granted,tag=write}":                             "6 in 0.506s",
		"doclock.wait.duration{outcome=refused,tag=write,error.type=conflict}":         "1 in 0.002s",
		"doclock.wait.duration{outcome=refused,tag=write,error.type=not_found}":        "1 in 0.003s",
		"doclock.wait.duration{outcome=gave_up,tag=write,error.type=timeout}":          "1 in 4s",
		"doclock.hold.duration{outcome=handed_over,tag=write}":                         "1 in 2s",
		"doclock.hold.duration{outcome=detached,tag=write}":                            "1 in 1s",
		"doclock.hold.duration{outcome=lost,tag=write,error.type=lost}":                "1 in 2s",
		"doclock.hold.duration{outcome=released,tag=write,error.type=outcome_unknown}": "1 in 1s",
		"doclock.hold.duration{outcome=released,tag=write}":                            "1 in 1s",
		"doclock.active_leases{tag=write}":                                             "1",
		"doclock.conflicts{tag=write}":                                                 "2",
		"doclock.skipped_documents{tag=write}":                                         "1",
		"doclock.losses{tag=write}":                                                    "1",
		"doclock.unknown_outcomes{tag=write}":                                          "1",
		"doclock.clean_up_failures{tag=write}":                                         "1",
		"doclock.renewals{tag=write}":                                                  "1",
		"doclock.renewal_failures{tag=write}":                                          "1",
		"doclock.commands{tag=write}":                                                  "21",
		"doclock.clock_jumps{}":                                                        "1",
		"doclock.dropped_events{}":                                                     "5",
	}
	got := r.points()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		r.equal(name, got[name], want[name])
		delete(got, name)
	}
	for name, value := range got {
		t.Errorf("%s: got %s, want nothing", name, value)
	}
}

// The story has each kind that package doclock has, so the tests that tell it
// miss none.
func TestTheStoryIsWhole(t *testing.T) {
	told := map[doclock.EventKind]bool{}
	for _, e := range story() {
		told[e.Kind] = true
	}
	for _, kind := range kinds(t) {
		if !told[kind] {
			t.Errorf("no event %q", kind)
		}
	}
}

// All counters of a tag exist from its first event on, at 0.
func TestFailuresAreCountedFromZero(t *testing.T) {
	r := newRig(t)
	r.observe(leased(1, doclock.EventGranted, 0))
	metrics := r.metrics()
	for _, name := range []string{"conflicts", "skipped_documents", "losses", "unknown_outcomes", "clean_up_failures", "renewals", "renewal_failures", "commands", "clock_jumps", "dropped_events"} {
		sum, ok := metrics["doclock."+name].Data.(metricdata.Sum[int64])
		if !ok || len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != 0 {
			t.Errorf("%s: %+v, want one point of 0", name, sum)
		}
	}
}

func TestLabelsFollowTheConventions(t *testing.T) {
	r := newRig(t)
	e := leased(1, doclock.EventGranted, 0)
	e.Collection = "shop.orders.2026" // the collection's name has the dot
	r.observe(e)
	sum := r.metrics()["doclock.active_leases"].Data.(metricdata.Sum[int64])
	var labels []string
	for _, a := range sum.DataPoints[0].Attributes.ToSlice() {
		labels = append(labels, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(labels)
	r.equal("labels", strings.Join(labels, " "), "db.collection.name=orders.2026 db.namespace=shop db.system.name=mongodb doclock.tag=write")
}

// Any number of documents, leases, owners and holders makes no further series, and
// none of them is a label.
func TestNoIDIsALabel(t *testing.T) {
	series := func(r *rig) (all []string) {
		for name, m := range r.metrics() {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					all = append(all, name+p.Attributes.Encoded(encoder))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					all = append(all, name+p.Attributes.Encoded(encoder))
				}
			}
		}
		slices.Sort(all)
		return all
	}
	once, often := newRig(t), newRig(t)
	once.observe(story()...)
	for i := range 200 {
		for _, e := range story() {
			if e.DocumentID.Type != 0 {
				e.DocumentID = documentID(fmt.Sprint("document-", i))
			}
			e.Owner = fmt.Sprint("owner-", i)
			e.LeaseID, e.Fence = leaseID(1000*i), int64(i)
			e.Holders = []doclock.Holder{{Tag: fmt.Sprint("tag-", i), Owner: fmt.Sprint("other-", i)}}
			often.observe(e)
		}
	}
	once.equal("series", series(often), series(once))
}

func TestAnUnknownKindIsIgnored(t *testing.T) {
	r := newRig(t)
	r.observe(event("of a later version", 0))
	if points, spans := r.points(), r.ended(); len(points)+len(spans) != 0 {
		t.Errorf("got %v and %v", points, spans)
	}
}
