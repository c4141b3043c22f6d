package dashboard

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/otel"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/util/teststorage"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// A recording is half an hour of a program, as Prometheus scrapes it every 15 s.
const (
	scrapes  = 120
	interval = 15 * time.Second
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

type recording struct {
	*teststorage.TestStorage
	names map[string]bool // of the series, as Prometheus has them
}

// record has an Observer export a program's events through OpenTelemetry's exporter
// for Prometheus, and stores what a scrape returns.
func record(t *testing.T) *recording {
	t.Helper()
	registry := client.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	observer, err := otel.New(otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter))))
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{teststorage.New(t), map[string]bool{}}
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	for n := range scrapes {
		for _, e := range program(n) {
			observer.Observe(context.Background(), e)
		}
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if answer.Code != 200 {
			t.Fatal(answer.Body)
		}
		if err := r.store(answer.Body.Bytes(), start.Add(time.Duration(n)*interval)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// store adds the series of a page at a time.
func (r *recording) store(page []byte, at time.Time) error {
	parser := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	into := r.Appender(context.Background())
	for {
		switch entry, err := parser.Next(); {
		case errors.Is(err, io.EOF):
			return into.Commit()
		case err != nil:
			return err
		case entry != textparse.EntrySeries:
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		_, _, value := parser.Series()
		r.names[series.Get(model.MetricNameLabel)] = true
		if _, err := into.Append(0, series, at.UnixMilli(), value); err != nil {
			return err
		}
	}
}

// program is what happens before scrape n, to two collections: each kind of event,
// and the failures now and then.
func program(n int) (events []doclock.Event) {
	for _, where := range []struct{ collection, tag string }{{"shop.orders", "write"}, {"book.categories", "read"}, {"book.categories", "write"}} {
		fresh := func(kind doclock.EventKind, err error) doclock.Event {
			return doclock.Event{Kind: kind, Collection: where.collection, Tag: where.tag, Err: err, Commands: 1,
				Time: start.Add(time.Duration(n) * interval), Waited: 20 * time.Millisecond, Held: time.Second}
		}
		lease := func(i int, kind doclock.EventKind, err error) {
			e := fresh(kind, err)
			binary.BigEndian.PutUint64(e.LeaseID[:], uint64(1000*n+i+1))
			events = append(events, e)
		}
		ends := []doclock.EventKind{doclock.EventReleased, doclock.EventHandedOver, doclock.EventDetached}
		for i := range 5 + n%7 {
			lease(i, doclock.EventGranted, nil)
			lease(i, doclock.EventRenewed, nil)
			if i > 0 { // the first is held on
				lease(i, ends[i%len(ends)], nil)
			}
		}
		events = append(events, fresh(doclock.EventWaiting, nil), fresh(doclock.EventRefused, doclock.ErrConflict))
		if n%10 != 5 {
			continue
		}
		events = append(events, fresh(doclock.EventGaveUp, context.DeadlineExceeded), fresh(doclock.EventRefused, doclock.ErrNotFound))
		lease(0, doclock.EventRenewalFailed, errors.New("no server"))
		lease(0, doclock.EventLost, doclock.ErrLost)
		lease(100, doclock.EventGranted, nil)
		lease(100, doclock.EventOutcomeUnknown, doclock.ErrOutcomeUnknown)
		lease(100, doclock.EventReleased, doclock.ErrOutcomeUnknown)
		events = append(events, fresh(doclock.EventSkipped, errors.New("the document is too large")))
		failed := fresh(doclock.EventCleanUpFailed, errors.New("no server"))
		failed.Dropped = 2
		events = append(events, failed, fresh(doclock.EventClockJumped, nil))
	}
	return events
}
