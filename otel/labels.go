package otel

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/doclock/doclock"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// The attributes that are doclock's own. The other attributes are those of
// OpenTelemetry's conventions for databases.
const (
	tagKey     = attribute.Key("doclock.tag")
	outcomeKey = attribute.Key("doclock.outcome")
)

// labelsKept is how many labels are kept. The SDK keeps fewer series of one metric
// unless it is told otherwise; a label beyond the limit is made for each event.
const labelsKept = 4096

// labels are the attributes of metrics, made once for each combination. None of
// them names a document, a lease or an owner, so a program has a few of them for
// each tag of each collection.
type labels struct {
	metrics *instruments
	mu      sync.Mutex
	all     map[labelKey]*label
}

type labelKey struct{ collection, tag, outcome, errorType string }

// label is a set of attributes, in the forms that instruments and spans take.
type label struct {
	add        []metric.AddOption
	record     []metric.RecordOption
	start      trace.SpanStartOption
	collection string
}

func newLabels(metrics *instruments) *labels {
	return &labels{metrics: metrics, all: map[labelKey]*label{}}
}

// ofCollection is the label without a tag.
func (l *labels) ofCollection(ctx context.Context, e doclock.Event) *label {
	return l.get(ctx, labelKey{collection: e.Collection})
}

// of is the label of most metrics.
func (l *labels) of(ctx context.Context, e doclock.Event) *label {
	return l.get(ctx, labelKey{collection: e.Collection, tag: e.Tag})
}

// withOutcome is the label of the histograms.
func (l *labels) withOutcome(ctx context.Context, e doclock.Event) *label {
	return l.get(ctx, labelKey{e.Collection, e.Tag, outcome(e), errorType(e.Err)})
}

func (l *labels) get(ctx context.Context, key labelKey) *label {
	l.mu.Lock()
	of, known := l.all[key]
	if !known {
		of = newLabel(key)
	}
	begins := !known && len(l.all) < labelsKept
	if begins {
		l.all[key] = of
	}
	l.mu.Unlock()
	switch {
	case !begins || key.outcome != "":
	case key.tag == "":
		l.metrics.beginCollection(ctx, of)
	default:
		l.metrics.beginTag(ctx, of)
		l.get(ctx, labelKey{collection: key.collection})
	}
	return of
}

func newLabel(key labelKey) *label {
	database, collection, _ := strings.Cut(key.collection, ".") // a database's name has no dot
	attrs := []attribute.KeyValue{
		semconv.DBSystemNameMongoDB,
		semconv.DBNamespace(database),
		semconv.DBCollectionName(collection),
	}
	if key.tag != "" {
		attrs = append(attrs, tagKey.String(key.tag))
	}
	if key.outcome != "" {
		attrs = append(attrs, outcomeKey.String(key.outcome))
	}
	if key.errorType != "" {
		attrs = append(attrs, semconv.ErrorTypeKey.String(key.errorType))
	}
	option := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return &label{
		add:        []metric.AddOption{option},
		record:     []metric.RecordOption{option},
		start:      trace.WithAttributes(attrs...),
		collection: collection,
	}
}

// outcome is what has happened as a label's value.
func outcome(e doclock.Event) string {
	return cmp.Or(spaceless(e.How), spaceless(e.Kind))
}

// spaceless is a word of the library's as an attribute's value.
func spaceless[T ~string](word T) string { return strings.ReplaceAll(string(word), " ", "_") }
