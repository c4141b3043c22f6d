package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics. README.md has their table.
type instruments struct {
	wait, hold, transaction metric.Float64Histogram
	active                  metric.Int64UpDownCounter

	conflicts, longWaits, skipped, losses, unknown, cleanUpFailures metric.Int64Counter
	renewals, renewalFailures                                       metric.Int64Counter
	commands, dropped                                               metric.Int64Counter
}

// The buckets' bounds, in seconds. A wait takes a round trip at least, and people
// stop waiting after a minute. A hold may be that of a long job.
var (
	waitBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	holdBounds = []float64{.001, .005, .01, .025, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}
)

func newInstruments(meter metric.Meter) (*instruments, error) {
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	histogram := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	i := &instruments{
		wait:            histogram("doclock.wait.duration", "Acquires, from the call to the grant, the refusal or the end; a claim's wait for a job, too.", waitBounds),
		hold:            histogram("doclock.hold.duration", "Leases, from the grant to the end.", holdBounds),
		transaction:     histogram("doclock.transaction.duration", "Calls of WithTransaction, from the begin to the end.", waitBounds),
		conflicts:       counter("doclock.conflicts", "{acquire}", "Acquires but claims that others blocked, counted at their end: they waited, or were refused."),
		longWaits:       counter("doclock.long_waits", "{acquire}", "Acquires but claims that have waited for the Locker's TTL, and go on, counted then."),
		skipped:         counter("doclock.skipped_documents", "{document}", "Documents that can't take the lock, each time that a claim goes past one."),
		losses:          counter("doclock.losses", "{lease}", "Leases whose time ran out, or whose entry is gone, before their release."),
		unknown:         counter("doclock.unknown_outcomes", "{command}", "Commands whose callers got ErrOutcomeUnknown."),
		cleanUpFailures: counter("doclock.clean_up_failures", "{entry}", "Unused entries that could not be removed. They expire by themselves."),
		renewals:        counter("doclock.renewals", "{renewal}", "Executed renewals."),
		renewalFailures: counter("doclock.renewal_failures", "{renewal}", "Failed renewals. They are repeated while the lease is valid."),
		commands:        counter("doclock.commands", "{command}", "Commands, counted when their acquire or lease ends."),
		dropped:         counter("doclock.dropped_events", "{event}", "Events that the observer was too slow for. The other metrics miss them."),
	}
	var err error
	i.active, err = meter.Int64UpDownCounter("doclock.active_leases", metric.WithUnit("{lease}"), metric.WithDescription("Held leases."))
	return i, errors.Join(append(errs, err)...)
}

// begin makes the counters of a tag start at 0, and that of its collection. A backend
// that computes an increase, as Prometheus does, would miss the first failure of a
// series that begins with it.
func (i *instruments) begin(ctx context.Context, tag, collection *label) {
	for _, c := range []metric.Int64Counter{i.conflicts, i.longWaits, i.skipped, i.losses, i.unknown, i.cleanUpFailures, i.renewals, i.renewalFailures, i.commands} {
		c.Add(ctx, 0, tag)
	}
	i.dropped.Add(ctx, 0, collection)
}
