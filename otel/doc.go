// Package otel turns the events of doclock's Lockers into OpenTelemetry metrics
// and spans. It is a module of its own, so that doclock itself doesn't depend on
// OpenTelemetry.
//
//	observer, err := otel.New()
//	locks, err := writelock.New(orders, doclock.OnEvent(observer.Observe))
//
// An Observer takes the events of any number of Lockers. Without options it uses
// the global providers. A file that also imports go.opentelemetry.io/otel names
// this package, as in
//
//	import doclockotel "github.com/doclock/doclock/otel"
//
// README.md has the tables of the metrics and of the spans' attributes, and
// dashboard.json is a dashboard of the metrics for Grafana.
//
// # Metrics
//
// No label is a document, a lease, an owner or a fencing token, so the number of
// series follows the code and not the load. The counters of failures begin at 0 with
// the first event of a tag: the first failure is an increase, too. The number of
// active leases is exact while doclock.dropped_events is 0. A command for several
// leases counts for each.
//
// # Spans
//
// An acquire has a span from its call to its end, and a lease from its grant to its
// end. Failed renewals and unknown outcomes are events of the lease's span. Both are
// children of the span of the caller's context, or else the acquire's span begins a
// trace, and the lease's is its child. A span's times are those of the events, also
// if they are delivered later. Its status is an error if the lease was lost, or if
// the acquire or the release returned an error. A refusal is none: it is an answer.
//
// The span of a lease is made when the lease ends. Until then an Observer
// remembers only the trace and the first failures, for the 16,384 youngest leases.
// The span of an older lease has the right times and no failures, and belongs to the
// trace of the call that ended it. A lease that never ends leaks nothing.
package otel
