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

// labels are the attributes of metrics, made once for each combination. None of
// them names a document, a lease or an owner, so a program has a few of them for
// each tag of each collection.
type labels struct {
	metrics *instruments
	all     sync.Map // from labelKey to *label
}

type labelKey struct{ collection, tag, outcome, errorType string }

// label is a set of attributes, in the forms that instruments and spans take.
type label struct {
	metric.MeasurementOption
	start      trace.SpanStartOption
	collection string
}

// find finds the label of most metrics, or makes it. With the first one of a tag its counters begin.
func (l *labels) find(ctx context.Context, e doclock.Event) *label {
	of, begins := l.get(labelKey{collection: e.Collection, tag: e.Tag})
	if begins {
		l.metrics.begin(ctx, of, l.findCollection(e))
	}
	return of
}

// findCollection finds the label without a tag.
func (l *labels) findCollection(e doclock.Event) *label {
	of, _ := l.get(labelKey{collection: e.Collection})
	return of
}

// findOutcome finds the label of the histograms.
func (l *labels) findOutcome(e doclock.Event) *label {
	of, _ := l.get(labelKey{e.Collection, e.Tag, outcome(e), errorType(e.Err)})
	return of
}

func (l *labels) get(key labelKey) (of *label, begins bool) {
	if known, is := l.all.Load(key); is {
		return known.(*label), false
	}
	database, collection, _ := strings.Cut(key.collection, ".") // a database's name has no dot
	attrs := []attribute.KeyValue{semconv.DBSystemNameMongoDB, semconv.DBNamespace(database), semconv.DBCollectionName(collection)}
	for _, more := range []attribute.KeyValue{tagKey.String(key.tag), outcomeKey.String(key.outcome), semconv.ErrorTypeKey.String(key.errorType)} {
		if more.Value.AsString() != "" {
			attrs = append(attrs, more)
		}
	}
	made := &label{metric.WithAttributeSet(attribute.NewSet(attrs...)), trace.WithAttributes(attrs...), collection}
	first, known := l.all.LoadOrStore(key, made)
	return first.(*label), !known
}

// outcome is what has happened as a label's value.
func outcome(e doclock.Event) string {
	return cmp.Or(spaceless(e.How), spaceless(e.Kind))
}

// spaceless is a word of the library's as an attribute's value.
func spaceless[T ~string](word T) string { return strings.ReplaceAll(string(word), " ", "_") }
