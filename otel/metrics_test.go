package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/attribute"
)

// story has an event of each kind.
func story() []doclock.Event {
	const s = time.Second
	tell := func(lease int, what any, took time.Duration, err error) doclock.Event {
		e := event(lease, what, 4*s+took)
		e.Waited, e.Held, e.Commands, e.Err = took, took, 1, err
		return e
	}
	no := tell(0, doclock.HowRefused, s/2, errors.Join(doclock.ErrNotAcquired, conflict))
	no.Holders = inTheWay
	gone := tell(0, doclock.HowRefused, s/4, doclock.ErrNotFound)
	gone.DocumentID = bson.RawValue{}
	cleanUp := tell(0, doclock.EventCleanUpFailed, 0, errors.New("no server"))
	cleanUp.Dropped = 5
	return []doclock.Event{
		tell(0, doclock.EventSkipped, 0, mongo.CommandError{Code: 17419, Message: "too large"}),
		tell(1, doclock.EventGranted, s, nil), tell(0, doclock.EventWaiting, 0, nil), tell(0, doclock.EventWaiting, 0, nil), tell(0, doclock.HowStill, 0, nil), no, gone,
		tell(1, doclock.HowHandedOver, 2*s, nil),
		tell(2, doclock.EventGranted, 2*s, nil), tell(2, doclock.EventRenewed, 0, nil), tell(2, doclock.HowDetached, s, nil),
		tell(3, doclock.EventGranted, s, nil), tell(3, doclock.EventRenewalFailed, s, mongo.CommandError{Code: 91, Message: "shutting down"}),
		tell(3, doclock.EventLost, 2*s, &doclock.LostError{Reason: doclock.LossEntryRemoved}),
		tell(0, doclock.HowGaveUp, 4*s, errors.Join(doclock.ErrNotAcquired, conflict, context.DeadlineExceeded)),
		tell(4, doclock.EventGranted, s, nil), tell(4, doclock.EventOutcomeUnknown, 0, doclock.ErrOutcomeUnknown),
		tell(4, doclock.HowUndecided, s, doclock.ErrOutcomeUnknown),
		tell(4, doclock.EventReleased, s, doclock.ErrOutcomeUnknown),
		tell(5, doclock.EventGranted, s, nil), tell(5, doclock.HowRolledBack, s, doclock.ErrLost), tell(5, doclock.HowCommitted, 2*s, nil), tell(5, doclock.EventReleased, s, nil),
		tell(7, doclock.EventGranted, s, nil), tell(7, doclock.HowConverted, s, nil),
		cleanUp,
		tell(6, doclock.EventGranted, s, nil),
	}
}

// The story has each kind of event that package doclock's source has. Another kind is ignored. No document, lease, owner
// or fencing token is a label.
func TestMetricsOfEachKind(t *testing.T) {
	r := newRig(t)
	r.observe(event(0, doclock.EventKind("of a later version"), 0))
	r.observe(story()...)
	r.equal("points", r.points(), map[string]string{
		"wait.duration{outcome=granted,tag=write}":                                     "7 in 8s",
		"wait.duration{outcome=refused,tag=write,error.type=conflict}":                 "1 in 0.5s",
		"wait.duration{outcome=refused,tag=write,error.type=not_found}":                "1 in 0.25s",
		"wait.duration{outcome=gave_up,tag=write,error.type=timeout}":                  "1 in 4s",
		"hold.duration{outcome=handed_over,tag=write}":                                 "1 in 2s",
		"hold.duration{outcome=detached,tag=write}":                                    "1 in 1s",
		"hold.duration{outcome=converted,tag=write}":                                   "1 in 1s",
		"hold.duration{outcome=lost,tag=write,error.type=lost}":                        "1 in 2s",
		"hold.duration{outcome=released,tag=write,error.type=outcome_unknown}":         "1 in 1s",
		"hold.duration{outcome=released,tag=write}":                                    "1 in 1s",
		"transaction.duration{outcome=committed,tag=write}":                            "1 in 2s",
		"transaction.duration{outcome=rolled_back,tag=write,error.type=lost}":          "1 in 1s",
		"transaction.duration{outcome=undecided,tag=write,error.type=outcome_unknown}": "1 in 1s",
		"active_leases{tag=write}":                                                     "1",
		"conflicts{tag=write}":                                                         "2",
		"long_waits{tag=write}":                                                        "1",
		"skipped_documents{tag=write}":                                                 "1",
		"losses{tag=write}":                                                            "1",
		"unknown_outcomes{tag=write}":                                                  "1",
		"clean_up_failures{tag=write}":                                                 "1",
		"renewals{tag=write}":                                                          "1",
		"renewal_failures{tag=write}":                                                  "1",
		"commands{tag=write}":                                                          "16",
		"dropped_events{}":                                                             "5",
	})

	kinds := regexp.MustCompile(`Event(?:Kind|How) += "([^"]*)"`).FindAllStringSubmatch(page(t, "../event.go"), -1)
	r.equal("event.go has kinds", len(kinds) > 0, true)
	for _, kind := range kinds {
		if !slices.ContainsFunc(story(), func(e doclock.Event) bool { return string(e.Kind) == kind[1] || string(e.How) == kind[1] }) {
			t.Errorf("the story has no event %q", kind[1])
		}
	}
}

// All counters of a tag exist from its first event on, at 0.
func TestFailuresAreCountedFromZero(t *testing.T) {
	r := newRig(t)
	r.observe(event(0, doclock.EventRenewed, 0))
	var values []string
	for _, s := range r.series() {
		values = append(values, strings.TrimPrefix(s.metric.Name, "doclock.")+"="+s.value)
	}
	slices.Sort(values)
	r.equal("values", strings.Join(values, " "), "clean_up_failures=0 commands=0 conflicts=0 dropped_events=0 long_waits=0 losses=0 "+
		"renewal_failures=0 renewals=1 skipped_documents=0 unknown_outcomes=0")
}

// A collection's name may have dots.
func TestLabels(t *testing.T) {
	r, e := newRig(t), event(0, doclock.EventRenewed, 0)
	e.Collection = "shop.orders.2026"
	r.observe(e)
	labels := r.series()[0].labels
	r.equal("labels", labels.Encoded(attribute.DefaultEncoder()), "db.collection.name=orders.2026,db.namespace=shop,db.system.name=mongodb,doclock.tag=write")
}

func TestErrorTypes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("%w: %w", doclock.ErrNotAcquired, conflict), "conflict"},
		{errors.Join(doclock.ErrNotAcquired, context.DeadlineExceeded, conflict), "timeout"},
		{errors.Join(doclock.ErrNotAcquired, context.Canceled, conflict), "canceled"},
		{errors.Join(doclock.ErrNotAcquired, doclock.ErrClosed, conflict), "closed"},
		{errors.Join(doclock.ErrOutcomeUnknown, context.DeadlineExceeded), "outcome_unknown"},
		{errors.Join(doclock.ErrNotAcquired, doclock.ErrNotFound), "not_found"},
		{fmt.Errorf("renewal: %w", mongo.CommandError{Code: 91, Message: "shutting down"}), "91"},
		{mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}, "11000"},
		{mongo.CommandError{Labels: []string{"NetworkError"}}, "network"},
		{mongo.CommandError{Code: 50, Message: "MaxTimeMSExpired"}, "timeout"},
		{fmt.Errorf("%w: waited for 10ms", doclock.ErrNotAcquired), "not_acquired"},
		{io.EOF, "_OTHER"},
	} {
		if got := errorType(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
