package otel_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

var update = flag.Bool("update", false, "write the tables of README.md anew, from what is recorded")

// The tables are those of the metrics and spans of a story with each kind of event.
func TestReadmeHasTheTables(t *testing.T) {
	r := newRig(t)
	r.observe(story()...)
	granted, end := lifetime(9, "lost", nil)
	r.observe(granted, end)
	old := page(t, "README.md")
	fresh := old
	spans := r.ended()
	fresh = between(t, fresh, "metrics", "\n"+r.metricsTable())
	fresh = between(t, fresh, "error types", quoted(otel.ErrorTypes()))
	fresh = between(t, fresh, "outcomes of a wait", outcomes(spans, "acquire"))
	fresh = between(t, fresh, "outcomes of a hold", outcomes(spans, "hold"))
	fresh = between(t, fresh, "spans", "\n"+attributesTable(t, spans))
	fresh = between(t, fresh, "span events", eventsOf(spans))
	switch {
	case fresh == old:
	case !*update:
		t.Error("README.md has other tables than what is recorded; go test -run Readme -update . writes them anew")
	default:
		if err := os.WriteFile("README.md", []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each metric that the dashboard or an alert asks for is one that Prometheus gets, and the dashboard and the
// operator's page have all of them.
func TestTheDashboardAndTheAlertsNameTheMetrics(t *testing.T) {
	readme, dashboard, operations := page(t, "README.md"), page(t, "dashboard.json"), page(t, "../docs/operations.md")
	names := regexp.MustCompile(`doclock_[a-z_]+`)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `doclock\\.[a-z_.]+` `([a-z_]+)` ").FindAllStringSubmatch(readme, -1) {
		known[m[1]] = true
		if !strings.Contains(dashboard, m[1]) || !strings.Contains(operations, m[1]) {
			t.Errorf("dashboard.json or docs/operations.md doesn't have %s", m[1])
		}
	}
	for _, label := range []string{"doclock_tag", "doclock_outcome"} {
		known[label] = true
	}
	for _, name := range names.FindAllString(dashboard+operations, -1) {
		if series := regexp.MustCompile(`_seconds_(bucket|count|sum)$`); !known[series.ReplaceAllString(name, "_seconds")] {
			t.Errorf("there is no metric %s", name)
		}
	}
	if !json.Valid([]byte(dashboard)) {
		t.Error("dashboard.json is no JSON")
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// between replaces the part of the page that has this name.
func between(t *testing.T, page, name, text string) string {
	t.Helper()
	part := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->).*?(<!-- end -->)`)
	if !part.MatchString(page) {
		t.Fatalf("README.md has no part %q", name)
	}
	return part.ReplaceAllString(page, "${1}"+text+"${2}")
}

func (r *rig) metricsTable() string {
	var table strings.Builder
	fmt.Fprintln(&table, "| metric, and its name in Prometheus | kind | unit | further labels | what it is |\n|---|---|---|---|---|")
	metrics := r.metrics()
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m := metrics[name]
		kind, suffix, labels := "", "", map[string]bool{}
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			kind, suffix = "histogram", "_seconds"
			for _, p := range data.DataPoints {
				collect(labels, p.Attributes)
			}
		case metricdata.Sum[int64]:
			kind = "up-down counter"
			if data.IsMonotonic {
				kind, suffix = "counter", "_total"
			}
			for _, p := range data.DataPoints {
				collect(labels, p.Attributes)
			}
		}
		fmt.Fprintf(&table, "| `%s` `%s%s` | %s | `%s` | %s | %s |\n", name, strings.ReplaceAll(name, ".", "_"), suffix, kind, m.Unit,
			quoted(slices.Sorted(maps.Keys(labels))), strings.TrimSuffix(m.Description, "."))
	}
	return table.String()
}

func collect(labels map[string]bool, set attribute.Set) {
	for _, a := range set.ToSlice() {
		if !strings.HasPrefix(string(a.Key), "db.") {
			labels[string(a.Key)] = true
		}
	}
}

// meanings say what the attributes of spans are.
var meanings = map[attribute.Key]string{
	"db.system.name":           "`mongodb`",
	"db.namespace":             "the database",
	"db.collection.name":       "the collection",
	"error.type":               "as of the metrics; only if there was an error",
	"doclock.tag":              "the tag",
	"doclock.outcome":          "as of the metrics",
	"doclock.owner":            "the owner that is in the document",
	"doclock.document.id":      "the document's `_id` as JSON, cut to 256 bytes; not if no document was found",
	"doclock.lease.id":         "the lease's ID; only after a grant",
	"doclock.fence":            "the lease's fencing token; only after a grant",
	"doclock.commands":         "commands that were sent for the acquire, or for the lease since its grant",
	"doclock.holders":          "those in the way, the first 8: tag, owner, held or waiting",
	"doclock.renewal_failures": "renewals that failed",
}

// attributesTable has the attributes of spans.
func attributesTable(t *testing.T, spans []trace.ReadOnlySpan) string {
	t.Helper()
	kinds, in := map[attribute.Key]string{}, map[attribute.Key]map[string]bool{}
	for _, s := range spans {
		for _, a := range s.Attributes() {
			kinds[a.Key] = strings.ToLower(a.Value.Type().String())
			if in[a.Key] == nil {
				in[a.Key] = map[string]bool{}
			}
			in[a.Key][what(s)] = true
		}
	}
	var table strings.Builder
	fmt.Fprintln(&table, "| attribute | of | type | what it is |\n|---|---|---|---|")
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		if meanings[key] == "" {
			t.Errorf("nothing says what %s is", key)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", key, strings.Join(slices.Sorted(maps.Keys(in[key])), ", "), kinds[key], meanings[key])
	}
	for key := range meanings {
		if kinds[key] == "" {
			t.Errorf("no span has %s", key)
		}
	}
	return table.String()
}

// what is the name of a span without its collection's.
func what(s trace.ReadOnlySpan) string {
	name, _, _ := strings.Cut(s.Name(), " ")
	return name
}

// outcomes are those of the spans with this name.
func outcomes(spans []trace.ReadOnlySpan, name string) string {
	all := map[string]bool{}
	for _, s := range spans {
		if value, ok := attr(s, "doclock.outcome"); ok && what(s) == name {
			all[value] = true
		}
	}
	return quoted(slices.Sorted(maps.Keys(all)))
}

// eventsOf are the names of the spans' events.
func eventsOf(spans []trace.ReadOnlySpan) string {
	all := map[string]bool{}
	for _, s := range spans {
		for _, e := range s.Events() {
			all[e.Name] = true
		}
	}
	return quoted(slices.Sorted(maps.Keys(all)))
}

func quoted(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return "`" + strings.Join(texts, "`, `") + "`"
}
