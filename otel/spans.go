package otel

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of spans that metrics don't have: there may be any number of
// values.
const (
	documentKey        = attribute.Key("doclock.document.id")
	leaseKey           = attribute.Key("doclock.lease.id")
	fenceKey           = attribute.Key("doclock.fence")
	ownerKey           = attribute.Key("doclock.owner")
	commandsKey        = attribute.Key("doclock.commands")
	holdersKey         = attribute.Key("doclock.holders")
	lossKey            = attribute.Key("doclock.loss.reason")
	renewalFailuresKey = attribute.Key("doclock.renewal_failures")
)

const (
	holdersShown  = 8
	documentBytes = 256
)

// acquireSpan is the span from the call of an acquire to its end. It is a child
// of the caller's span.
func (o *Observer) acquireSpan(ctx context.Context, e doclock.Event) (context.Context, trace.Span) {
	ctx, span := o.start(ctx, "acquire", e, trace.WithTimestamp(e.Time.Add(-e.Waited)))
	if span.IsRecording() && len(e.Holders) > 0 {
		span.SetAttributes(holdersKey.StringSlice(holders(e.Holders)))
	}
	return ctx, span
}

// holdSpan is the span from the grant of a lease to its end. It is made at the
// end, so a lease whose end never comes costs no open span. It is a sibling of its
// acquire's span, or the child of it if the caller had no span.
func (o *Observer) holdSpan(ctx context.Context, e doclock.Event) (context.Context, trace.Span) {
	known := o.leases.ended(e)
	if known.parent.IsValid() { // else the lease was forgotten: see leases
		ctx = trace.ContextWithSpanContext(ctx, known.parent)
	}
	ctx, span := o.start(ctx, "hold", e, trace.WithTimestamp(e.Time.Add(-e.Held)))
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(renewalFailuresKey.Int(known.failed))
	for _, n := range known.notes {
		span.AddEvent(string(n.kind), trace.WithTimestamp(n.at), trace.WithAttributes(
			semconv.ErrorTypeKey.String(n.errorType), semconv.ExceptionMessage(n.message)))
	}
	return ctx, span
}

// start begins a span, with the few attributes that a sampler may want. The
// others are made for a recorded span only.
func (o *Observer) start(ctx context.Context, what string, e doclock.Event, began trace.SpanStartOption) (context.Context, trace.Span) {
	plain := o.labels.find(ctx, e)
	ctx, span := o.tracer.Start(ctx, what+" "+plain.collection, began, plain.start)
	if !span.IsRecording() {
		return ctx, span
	}
	attrs := append(make([]attribute.KeyValue, 0, 8), outcomeKey.String(outcome(e)), ownerKey.String(e.Owner), commandsKey.Int(e.Commands))
	if e.DocumentID.Type != 0 {
		attrs = append(attrs, documentKey.String(document(e.DocumentID)))
	}
	if e.LeaseID != uuid.Nil {
		attrs = append(attrs, leaseKey.String(e.LeaseID.String()), fenceKey.Int64(e.Fence))
	}
	if e.Err != nil {
		attrs = append(attrs, semconv.ErrorTypeKey.String(errorType(e.Err)))
	}
	if lost := (*doclock.LostError)(nil); errors.As(e.Err, &lost) {
		attrs = append(attrs, lossKey.String(spaceless(lost.Reason)))
	}
	span.SetAttributes(attrs...)
	return ctx, span
}

// endSpan ends a span at the time of the event. A loss is an error, and so is any
// error but a refusal: that is an answer like a grant.
func endSpan(span trace.Span, e doclock.Event) {
	switch {
	case e.How == doclock.HowRefused:
	case e.Err != nil:
		span.SetStatus(codes.Error, e.Err.Error())
	case e.Kind == doclock.EventLost, e.Kind == doclock.EventNotGranted:
		span.SetStatus(codes.Error, string(e.Kind))
	}
	span.End(trace.WithTimestamp(e.Time))
}

// holders names the first few of those in the way.
func holders(all []doclock.Holder) (names []string) {
	for _, h := range all[:min(len(all), holdersShown)] {
		state := "held"
		if h.Waiting {
			state = "waiting"
		}
		names = append(names, oneline.Text(h.Tag+" of "+h.Owner+", "+state)) // no exporter takes a text that isn't UTF-8
	}
	return names
}

// document is an _id as people write it: 7, "A-17", {"$oid":"…"}.
func document(id bson.RawValue) string { return cut(bsonvalue.Readable(id), documentBytes) }

// cut keeps whole characters of a text, up to so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
